package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftimeCodes are the codes of C's strftime in the C locale. As Python's
// datetime.now() has no zone, %Z and %z are empty.
var strftimeCodes = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'I': "03",
	'e': "_2", 'j': "002", 'f': "000000", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06",
	'R': "15:04", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'r': "03:04:05 PM",
	'Z': "", 'z': "",
}

// strftime writes t. Codes it does not know stay as they are.
func strftime(b *builder, t time.Time, format string) {
	for i := 0; i < len(format) && b.err == nil; i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.plain(format[i : i+1])
			continue
		}
		i++
		unpadded := format[i] == '-' && i+1 < len(format)
		if unpadded {
			i++
		}
		part := strftimeCode(t, format[i])
		if unpadded {
			if part = strings.TrimLeft(part, "0 "); part == "" {
				part = "0"
			}
		}
		b.plain(part)
	}
}

func strftimeCode(t time.Time, code byte) string {
	switch code {
	case '%':
		return "%"
	case 'n':
		return "\n"
	case 't':
		return "\t"
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000)
	case 's':
		return fmt.Sprint(t.Unix())
	case 'w':
		return fmt.Sprint(int(t.Weekday()))
	case 'u':
		return fmt.Sprint((int(t.Weekday())+6)%7 + 1)
	case 'V', 'G':
		year, week := t.ISOWeek()
		if code == 'G' {
			return fmt.Sprint(year)
		}
		return fmt.Sprintf("%02d", week)
	}
	layout, ok := strftimeCodes[code]
	switch {
	case !ok:
		return "%" + string(code)
	case layout == "":
		return ""
	}
	return t.Format(layout)
}
