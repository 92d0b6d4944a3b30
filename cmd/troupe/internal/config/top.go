package config

import "fmt"

// Top is the settings of `troupe top`.
type Top struct {
	URL      string  `name:"url" default:"http://localhost:8000" help:"Server to look at."`
	APIKey   string  `name:"api-key" placeholder:"KEY" help:"Administrator's key; or OPENAI_API_KEY."`
	Cluster  bool    `help:"Show the nodes of the server's cluster and their devices, too."`
	Interval float64 `default:"1" help:"Seconds between two looks."`
}

const minInterval = 0.1 // seconds between two questions to a server

// Check returns the first impossible setting.
func (t *Top) Check() error {
	if !(t.Interval >= minInterval && t.Interval <= maxSeconds) {
		return fmt.Errorf("--interval must be a number of seconds from %v to %d, got %v", minInterval, maxSeconds, t.Interval)
	}
	return checkURL("--url", t.URL)
}
