package main

import (
	"cmp"
	"fmt"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/doctor"
	"github.com/troupe-llm/troupe/model"
)

// doctor runs `troupe doctor`.
func (m *Main) doctor() error {
	cfg := &m.cli.Doctor
	var needs *model.Needs
	if cfg.Model != "" {
		folder, err := openFolder(cfg.Model)
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
