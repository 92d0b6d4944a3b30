package top

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/troupe-llm/troupe/cmd/troupe/internal/client"
)

// nodeLines are a table of nodes, a line per device.
func nodeLines(nodes []client.Node) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tROLE\tVERSION\tMODEL\tREQUESTS\tDEVICE\tSTATE\tSEQS\tOWN\tQUEUED TOKENS\tFREE BLOCKS\tSAMPLE")
	for i := range nodes {
		n := &nodes[i]
		address, role := n.Address, n.Role
		if n.Self {
			address += " *"
		}
		if n.Draining {
			role += ", draining"
		}
		head := fmt.Sprintf("%s\t%s\t%s\t%s\t%s", address, role, n.Version, n.Model, orDash(n.NumRequests))
		if len(n.Devices) == 0 {
			fmt.Fprintf(w, "%s\t-\t\t\t\t\t\t\n", head)
		}
		for j := range n.Devices {
			d := &n.Devices[j]
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%d\t%d/%d\t%.0fms\n", head, d.Index, d.State, d.NumSequences, orDash(d.NumOwnSequences),
				d.NumQueuedTokens, d.NumFreeBlocks, d.NumBlocks, d.SampleAgeMs)
			head = "\t\t\t\t"
		}
	}
	_ = w.Flush() // to memory
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return lines
}

func orDash(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
