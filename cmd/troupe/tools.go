package main

import (
	"context"
	"fmt"

	"github.com/troupe-llm/troupe/mcp"
)

// openTools connects with the tool servers, which have to be there at the start.
func (s *server) openTools(ctx context.Context) error {
	targets, err := s.cfg.ToolServers()
	if err != nil || len(targets) == 0 {
		return err
	}
	s.tools, err = mcp.Connect(ctx, mcp.Config{
		Targets: targets, CallTimeout: seconds(s.cfg.Chat.ToolCallTimeout), Version: version(), Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("--tool-server: %w", err)
	}
	s.closers = append(s.closers, s.tools.Close)
	return nil
}
