package enginebench

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	fmt.Fprintf(w, "%d threads, %d repetitions; decode of %d tokens behind %d\n", r.Threads, r.Repetitions, r.Tokens, r.Context)
	fmt.Fprintf(w, "plain reading of memory: %.1f GB/s (%.1f to %.1f)\n\n", r.Bandwidth.Median/1e9, r.Bandwidth.Min/1e9, r.Bandwidth.Max/1e9)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tTYPE\tLOAD\tTEST\tTOKENS/S\tFROM\tTO\tOF BANDWIDTH")
	for _, e := range r.Engines {
		for _, row := range e.Rows {
			share := ""
			if row.BandwidthShare > 0 {
				share = fmt.Sprintf("%.0f %%", 100*row.BandwidthShare)
			}
			s := row.TokensPerSecond
			fmt.Fprintf(t, "%s\t%s\t%.2f s\t%s %d\t%.1f\t%.1f\t%.1f\t%s\n", e.Name, e.Types, e.LoadingSeconds, row.Kind, row.Size, s.Median, s.Min, s.Max, share)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Interrupted {
		fmt.Fprintln(w, "\ninterrupted: the figures are of what was measured before")
	}
	return nil
}
