package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	neturl "net/url"
)

// PathRequests lists a server's requests in flight, for administrators.
const PathRequests = "/v1/requests"

// Request is a request in flight.
type Request struct {
	ID              string  `json:"id"`
	Key             string  `json:"key"`
	Phase           string  `json:"phase"`
	AgeMs           float64 `json:"age_ms"`
	NumPromptTokens int     `json:"num_prompt_tokens"`
	NumOutputTokens int     `json:"num_output_tokens"`
	NumCachedTokens int     `json:"num_cached_tokens"`
	NumSequences    int     `json:"num_sequences"`
	NumRecoveries   int     `json:"num_recoveries"`
	QueuePosition   int     `json:"queue_position"`
}

// Requests returns the requests in flight, oldest first. Their strings hold
// nothing that a terminal would obey.
func (c *Client) Requests(ctx context.Context) ([]Request, error) {
	resp, err := c.do(ctx, http.MethodGet, PathRequests, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list struct{ Data []Request }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBodyBytes)).Decode(&list); err != nil {
		return nil, err
	}
	for i := range list.Data {
		r := &list.Data[i]
		r.ID, r.Key, r.Phase = printable(r.ID), printable(r.Key), printable(r.Phase)
	}
	return list.Data, nil
}

// CancelRequest cancels a request in flight. A *StatusError of 404 says that it
// was over.
func (c *Client) CancelRequest(ctx context.Context, id string) error {
	resp, err := c.do(ctx, http.MethodDelete, PathRequests+"/"+neturl.PathEscape(id), nil)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
