package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
)

// jsonError words a decoder's error without the names of Go types.
func jsonError(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := map[reflect.Kind]string{
		reflect.Int: "an integer", reflect.Float64: "a number", reflect.String: "a string", reflect.Map: "an object",
	}[wrong.Type.Kind()]
	if wrong.Field == "" {
		return fmt.Errorf("must be %s, not %s", want, wrong.Value)
	}
	return fmt.Errorf("%s must be %s, not %s", wrong.Field, want, wrong.Value)
}

// kong names numbers by Go's types.
var (
	goInteger = regexp.MustCompile(`a valid \d+ bit u?int\b`)
	goNumber  = regexp.MustCompile(`a (valid \d+ bit )?float\b`)
	goType    = regexp.MustCompile(` \(string\)$`)
)

// plainWords takes Go's types out of an error of kong's.
func plainWords(message string) string {
	message = goInteger.ReplaceAllString(goType.ReplaceAllString(message, ""), "an integer")
	return goNumber.ReplaceAllString(message, "a number")
}
