package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEventBytes bounds one line and the data of one event.
const maxEventBytes = 4 << 20

// sseReader reads the data of server-sent events. Comments and fields other than
// data are passed over.
type sseReader struct {
	r    *bufio.Reader
	data []byte
}

func newSSEReader(r io.Reader) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 16<<10)}
}

// next returns the data of the next event that has any, valid until the next
// call, or io.EOF. An event that the end cuts off is dropped, as the standard says.
func (s *sseReader) next() ([]byte, error) {
	s.data = s.data[:0]
	hasData := false
	for {
		line, err := s.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if hasData {
				return s.data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data"))
		if !ok || len(value) > 0 && value[0] != ':' {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if hasData {
			s.data = append(s.data, '\n')
		}
		if len(s.data)+len(value) > maxEventBytes {
			return nil, errEventTooLarge
		}
		s.data, hasData = append(s.data, value...), true
	}
}

var errEventTooLarge = fmt.Errorf("the server sent an event of more than %d bytes", maxEventBytes)

// line returns a line without its ending (LF or CRLF), valid until the next read.
func (s *sseReader) line() ([]byte, error) {
	line, err := s.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = s.longLine(bytes.Clone(line))
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
}

func (s *sseReader) longLine(line []byte) ([]byte, error) {
	for {
		part, err := s.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxEventBytes {
			return nil, errEventTooLarge
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
