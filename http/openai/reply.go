package openai

import "strconv"

// appendIdentity appends the members that are equal in all parts of an answer:
// {"id":…,"object":…,"created":…,"model":… without a closing brace.
func (r *Reply) appendIdentity(dst []byte, object string) []byte {
	dst = appendString(append(dst, `{"id":`...), r.ID)
	dst = append(append(append(dst, `,"object":"`...), object...), `","created":`...)
	dst = strconv.AppendInt(dst, r.Created, 10)
	return appendString(append(dst, `,"model":`...), r.Model)
}

// appendFingerprint appends system_fingerprint with its leading comma.
func (r *Reply) appendFingerprint(dst []byte, n nulls) []byte {
	if r.SystemFingerprint == "" && n == omitNulls {
		return dst
	}
	return appendStringOrNull(append(dst, `,"system_fingerprint":`...), r.SystemFingerprint)
}
