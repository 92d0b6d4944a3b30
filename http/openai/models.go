package openai

import (
	"strconv"

	"github.com/troupe-llm/troupe/infer"
)

// AppendModels appends the answer to GET /v1/models: one entry per served name.
func AppendModels(dst []byte, m *infer.ModelInfo, created int64) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, name := range m.ServedNames {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, m, name, created)
	}
	return append(dst, "]}"...)
}

// AppendModel appends one entry of the list, in the shape vLLM gives it.
func AppendModel(dst []byte, m *infer.ModelInfo, name string, created int64) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, name)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	dst = append(dst, `,"owned_by":"vllm","root":`...)
	dst = appendString(dst, m.Root)
	dst = append(dst, `,"parent":null,"max_model_len":`...)
	dst = appendInt(dst, m.MaxModelLen)
	dst = append(dst, `,"permission":[{"id":"modelperm-`...)
	dst = appendEscaped(dst, name)
	dst = append(dst, `","object":"model_permission","created":`...)
	dst = strconv.AppendInt(dst, created, 10)
	return append(dst, `,"allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,`+
		`"allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,`+
		`"organization":"*","group":null,"is_blocking":false}]}`...)
}
