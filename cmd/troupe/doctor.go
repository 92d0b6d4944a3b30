package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/doctor"
	"github.com/troupe-llm/troupe/model"
	"github.com/troupe-llm/troupe/model/hub"
)

// doctor runs `troupe doctor`.
func (m *Main) doctor(ctx context.Context) error {
	cfg := &m.cli.Doctor
	var needs *model.Needs
	if cfg.Model != "" {
		path, err := m.cachedModel(ctx, cfg.Model)
		if err != nil {
			return err
		}
		folder, err := openFolder(path)
		if err != nil {
			return err
		}
		n, err := model.Inspect(folder, model.Options{Quantization: cfg.Quantization, KVCacheDType: cfg.KVCacheDType})
		if err != nil {
			return fmt.Errorf("%s: %w", folder.Name(), err)
		}
		needs = &n
	}
	report, err := doctor.Examine(int64(cfg.ReadMiB) << 20)
	if err != nil {
		return err
	}
	if needs != nil {
		report.Add(cfg.Model, *needs)
	}
	if err := m.writeReport(report, cfg.JSON); err != nil {
		return err
	}
	if f := report.Model; f != nil && !f.Fits {
		return fmt.Errorf("%s does not fit this machine", cmp.Or(f.Name, "the model"))
	}
	return nil
}

// cachedModel returns where a model is on disk. One of a hub is not fetched to be judged.
func (m *Main) cachedModel(ctx context.Context, given string) (string, error) {
	name, ok := hubName(given)
	if !ok {
		return given, nil
	}
	got, err := m.fetch(ctx, name, hub.Options{Offline: true})
	if err != nil {
		return "", fmt.Errorf("%s is not on disk: fetch it with troupe pull %s, or name a folder or a GGUF file", given, given)
	}
	return got.Path, nil
}
