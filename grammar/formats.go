package grammar

const (
	day31    = `(?:0[1-9]|[12]\d|3[01])`
	day30    = `(?:0[1-9]|[12]\d|30)`
	day29    = `(?:0[1-9]|[12]\d)`
	day28    = `(?:0[1-9]|1\d|2[0-8])`
	leapYear = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)`
	fullDate = `(?:\d{4}-(?:(?:0[13578]|1[02])-` + day31 + `|(?:0[469]|11)-` + day30 + `|02-` + day28 + `)|` + leapYear + `-02-` + day29 + `)`
	fullTime = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	octet    = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	dotted   = octet + `(?:\.` + octet + `){3}`
	group    = `[0-9a-fA-F]{1,4}`
	label    = `[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	// At most four labels: a host name has at most 253 characters.
	hostname = label + `(?:\.` + label + `){0,2}`
	timeUnit = `T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S)`
	dateUnit = `(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)`
)

// formats are the values of "format" for strings. Each matches a subset of what
// the format allows, and what programs usually write.
var formats = map[string]string{
	"date":      fullDate,
	"time":      fullTime,
	"date-time": fullDate + `T` + fullTime,
	"duration":  `P(?:` + dateUnit + `(?:` + timeUnit + `)?|` + timeUnit + `|\d{1,9}W)`,
	// At most 60 characters in front: an address has at most 254.
	"email":    `[a-zA-Z0-9_+-]{1,32}(?:\.[a-zA-Z0-9_+-]{1,13}){0,2}@` + hostname,
	"hostname": hostname,
	"ipv4":     dotted,
	"ipv6": `(?:(?:` + group + `:){7}` + group + `|(?:` + group + `:){1,7}:|(?:` + group + `:){1,6}:` + group + `|(?:` + group + `:){1,5}(?::` + group + `){1,2}|(?:` +
		group + `:){1,4}(?::` + group + `){1,3}|(?:` + group + `:){1,3}(?::` + group + `){1,4}|(?:` + group + `:){1,2}(?::` + group + `){1,5}|` + group + `:(?::` +
		group + `){1,6}|:(?:(?::` + group + `){1,7}|:))`,
	"uri":  `[a-z][a-z0-9+.-]{1,10}://` + hostname + `(?::[1-9]\d{0,3})?(?:/[a-zA-Z0-9._~-]{0,40}){0,12}(?:\?[a-zA-Z0-9._~=&-]{0,80})?(?:#[a-zA-Z0-9._~-]{0,40})?`,
	"uuid": `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
}
