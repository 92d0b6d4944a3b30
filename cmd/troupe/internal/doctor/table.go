package doctor

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "System\t%s, %d cores, %d threads\n", r.OS, r.Cores, r.Threads)
	fmt.Fprintf(t, "Instructions\t%s\n", r.Instructions)
	fmt.Fprintf(t, "Memory\t%s, read at %.1f GB/s (%.1f by one thread)\n", r.memory(), r.Bandwidth/1e9, r.SingleBandwidth/1e9)
	if r.MemoryLimit > 0 {
		fmt.Fprintf(t, "Control group\tat most %s of memory\n", size(r.MemoryLimit))
	}
	if r.CPULimit > 0 {
		fmt.Fprintf(t, "Control group\tat most %.3g of %d cores\n", r.CPULimit, r.Cores)
	}
	if r.Model != nil {
		f := r.Model
		fmt.Fprintf(t, "Model\t%s: %s parameters in %s, %s of weights, %s of keys and values per 1,000 tokens\n",
			f.Name, count(f.NumParameters), f.Type, size(f.WeightBytes), size(1000*f.KVBytesPerToken))
		fmt.Fprintf(t, "\t%s\n", f.verdict())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWhat fits, and what one sequence that decodes alone can be expected to get:")
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SIZE\tTYPE\tWEIGHTS\tTOKENS/S\tCONTEXT\t")
	for _, f := range r.Sizes {
		if f.Fits {
			fmt.Fprintf(t, "%s\t%s\t%s\t%.1f\t%s tokens\t\n", f.Name, f.Type, size(f.WeightBytes), f.TokensPerSecond, count(f.ContextTokens))
		} else {
			fmt.Fprintf(t, "%s\t%s\t%s\t-\t%s too little memory\t\n", f.Name, f.Type, size(f.WeightBytes), size(f.MissingBytes))
		}
	}
	return t.Flush()
}

func (r *Report) memory() string {
	if r.MemoryTotal == 0 {
		return size(r.MemoryAvailable) + " assumed"
	}
	return fmt.Sprintf("%s of %s available", size(r.MemoryAvailable), size(r.MemoryTotal))
}

// verdict says whether a model fits, and which flags its whole context needs.
func (f *Fit) verdict() string {
	if !f.Fits {
		return fmt.Sprintf("does not fit: %s of memory are missing", size(f.MissingBytes))
	}
	text := fmt.Sprintf("fits, with room for %s tokens of context in all (%s for one sequence); about %.1f tokens/s alone",
		count(f.ContextTokens), count(int64(f.MaxContext)), f.TokensPerSecond)
	longest := int64(f.MaxContext)
	switch {
	case f.ContextTokens < longest && f.DefaultContextTokens < f.ContextTokens:
		text += fmt.Sprintf("; --max-model-len must be at most %d, or %d without --kv-cache-memory-bytes", f.ContextTokens, f.DefaultContextTokens)
	case f.ContextTokens < longest:
		text += fmt.Sprintf("; --max-model-len must be at most %d", f.ContextTokens)
	case f.DefaultContextTokens < longest:
		text += fmt.Sprintf("; give --kv-cache-memory-bytes %d, or --max-model-len of at most %d", longest*f.KVBytesPerToken, f.DefaultContextTokens)
	}
	return text
}

// size writes bytes with three digits.
func size(n int64) string {
	const unit = 1 << 10
	value, names := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; value >= unit && i < len(names)-1; i++ {
		value /= unit
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", value, names[i])
}

// count writes a number with three digits.
func count(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.3gB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
