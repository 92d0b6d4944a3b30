package config

import (
	"fmt"

	"github.com/troupe-llm/troupe/model/hub"
)

// Pull is the settings of `troupe pull`.
type Pull struct {
	Name     string   `arg:"" name:"NAME" help:"ORG/NAME of a model, ORG/NAME:REVISION, or ORG/NAME:Q8_0 for one of its GGUF files."`
	HubFlags HubFlags `embed:""`
}

// HubFlags are about models of a hub.
type HubFlags struct {
	Revision    string `placeholder:"REVISION" help:"Branch, tag or commit of a model that is named as ORG/NAME; main if absent."`
	DownloadDir string `placeholder:"FOLDER" help:"Folder for models of a hub, in the layout of the Hugging Face cache; that cache (HF_HUB_CACHE, HF_HOME) if absent."`
}

// Check returns the first impossible setting.
func (p *Pull) Check() error {
	name, ok := hub.ParseName(p.Name)
	if !ok {
		return fmt.Errorf("NAME must be ORG/NAME, ORG/NAME:REVISION or ORG/NAME:TYPE, got %q", p.Name)
	}
	_, err := name.At(p.HubFlags.Revision)
	return err
}
