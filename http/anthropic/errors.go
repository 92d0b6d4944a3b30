package anthropic

import (
	"net/http"

	"github.com/troupe-llm/troupe/http/openai"
)

// errorTypes are Anthropic's words for statuses; apiError and invalidRequest stand for
// others.
var errorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusServiceUnavailable:    "overloaded_error",
	http.StatusNotImplemented:        invalidRequest,
}

const (
	apiError       = "api_error"
	invalidRequest = "invalid_request_error"
)

// AppendError appends {"type": "error", …} with the id by which the log has the request.
func AppendError(dst []byte, p openai.Problem, requestID string) []byte {
	kind, ok := errorTypes[p.Status]
	switch {
	case ok:
	case p.Status >= http.StatusInternalServerError:
		kind = apiError
	default:
		kind = invalidRequest
	}
	dst = openai.AppendString(append(dst, `{"type":"error","error":{"type":`...), kind)
	dst = openai.AppendString(append(dst, `,"message":`...), p.Message)
	if p.Param == threadField {
		dst = append(dst, `,"details":{"error_code":"thread_unsupported_request"}`...)
	}
	return append(openai.AppendString(append(dst, `},"request_id":`...), requestID), '}')
}
