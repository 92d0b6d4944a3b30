package http

import (
	"encoding/json"
	"net/url"
	"slices"

	"github.com/gofiber/fiber/v2"
	"github.com/troupe-llm/troupe/infer"
)

// liveRequest is a request in flight as administrators see it.
type liveRequest struct {
	ID              string  `json:"id"`
	Object          string  `json:"object"` // "request"
	Key             string  `json:"key"`
	Phase           string  `json:"phase"`
	AgeMs           float64 `json:"age_ms"`
	NumPromptTokens int     `json:"num_prompt_tokens"`
	NumOutputTokens int     `json:"num_output_tokens"`
	NumCachedTokens int     `json:"num_cached_tokens"`
	NumSequences    int     `json:"num_sequences"`
	NumRecoveries   int     `json:"num_recoveries"`
	QueuePosition   int     `json:"queue_position"` // 0 = not queued
	Priority        int     `json:"priority"`
}

func toLive(r infer.RequestInfo, now int64) liveRequest {
	return liveRequest{
		ID: r.ID, Object: "request", Key: r.Key, Phase: string(r.Phase), AgeMs: float64(now-r.Arrival) / 1e6,
		NumPromptTokens: r.NumPromptTokens, NumOutputTokens: r.NumOutputTokens, NumCachedTokens: r.NumCachedTokens,
		NumSequences: r.NumSequences, NumRecoveries: r.NumRecoveries, QueuePosition: r.QueuePosition, Priority: r.Priority,
	}
}

// listRequests serves GET /v1/requests: what is in flight, oldest first.
func (s *Server) listRequests(c *fiber.Ctx) error {
	now := infer.Now()
	data := []liveRequest{}
	for _, r := range s.opts.Inspector.Requests() {
		data = append(data, toLive(r, now))
	}
	return c.JSON(struct {
		Object string        `json:"object"`
		Data   []liveRequest `json:"data"`
	}{"list", data})
}

// getRequest serves GET /v1/requests/{id}: a request in flight, or the record of
// one that ended some minutes ago.
func (s *Server) getRequest(c *fiber.Ctx) error {
	id, err := requestParam(c)
	if err != nil {
		return err
	}
	requests := s.opts.Inspector.Requests()
	if i := slices.IndexFunc(requests, func(r infer.RequestInfo) bool { return r.ID == id }); i >= 0 {
		return c.JSON(toLive(requests[i], infer.Now()))
	}
	if r := s.ledger.find(id); r != nil {
		return c.JSON(r)
	}
	return noSuchRequest()
}

// deleteRequest serves DELETE /v1/requests/{id}: it cancels a request in flight.
func (s *Server) deleteRequest(c *fiber.Ctx) error {
	id, err := requestParam(c)
	if err != nil {
		return err
	}
	between, isLoop := s.loops.Load(id) // between two turns no engine knows it
	if isLoop {
		between.(*loop).Cancel(infer.CancelAdmin)
	}
	if !s.opts.Inspector.CancelRequest(id) && !isLoop {
		return noSuchRequest()
	}
	return c.JSON(struct {
		ID        string `json:"id"`
		Object    string `json:"object"`
		Cancelled bool   `json:"cancelled"`
	}{id, "request", true})
}

// requestParam copies the id out of the path; it may hold slashes.
func requestParam(c *fiber.Ctx) (string, error) {
	id, err := url.PathUnescape(c.Params("*"))
	if err != nil {
		return "", noSuchRequest()
	}
	return string([]byte(id)), nil
}

func noSuchRequest() error {
	return infer.Errorf(infer.CodeNotFound, "id", "There is no such request")
}

// fault serves POST /debug/fault: the next step of a batcher fails.
func (s *Server) fault(c *fiber.Ctx) error {
	return s.withBody(c, func(body []byte) error {
		f := struct {
			Kind    string `json:"kind"`
			Batcher int    `json:"batcher"`
		}{Batcher: -1}
		if err := json.Unmarshal(body, &f); err != nil {
			return infer.Errorf(infer.CodeMalformed, "", `The body must be {"kind": "panic"|"error"|"stall", "batcher": N}`)
		}
		if err := s.opts.Inspector.InjectFault(f.Kind, f.Batcher); err != nil {
			return err
		}
		return c.JSON(f)
	})
}
