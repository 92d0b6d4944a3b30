package safetensors

import "bytes"

// sniffBytes is how much of a file's start is looked at.
const sniffBytes = 512

// sniff recognises what is commonly found in place of a safetensors file and
// says what to do; it returns "" if nothing is recognised. It is asked only when
// the first eight bytes are no possible header length: the small numbers there
// can look like any of these.
func sniff(data []byte) string {
	if len(data) == 0 {
		return "the file is empty (0 bytes): download it again"
	}
	head := data[:min(len(data), sniffBytes)]
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	switch {
	case bytes.HasPrefix(text, []byte("version https://git-lfs")):
		return "this is a git-lfs pointer, not the weights: run `git lfs pull` in the model folder, or download the file itself"
	case bytes.HasPrefix(text, []byte("<!doctype")), bytes.HasPrefix(text, []byte("<html")), bytes.HasPrefix(text, []byte("<?xml")):
		return "this is an HTML page saved under the name of a weight file: download the file itself (on a model hub: the \"download\" or \"resolve\" link), logged in if the model is gated"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("\x80\x02")):
		return "this is a PyTorch checkpoint, not safetensors: convert it to safetensors first"
	case bytes.HasPrefix(head, []byte("GGUF")):
		return "this is a GGUF file, not safetensors: name it *.gguf"
	case bytes.HasPrefix(text, []byte("{")) || bytes.HasPrefix(text, []byte("entry not found")) || bytes.HasPrefix(text, []byte("invalid ")):
		return "this is a text file, perhaps a server's error message, not safetensors: download the file again"
	}
	return ""
}
