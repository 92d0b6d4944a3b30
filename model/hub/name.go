package hub

import (
	"regexp"
	"strings"

	"github.com/troupe-llm/troupe/infer"
)

const defaultRevision = "main"

// Limits of a name, those of the hub's own.
const (
	maxIDBytes       = 96
	maxRevisionBytes = 255
)

// Name is a model on a hub.
type Name struct {
	Repo     string // ORG/NAME
	Revision string // branch, tag or commit; "" = main
	File     string // which of several GGUF files: the end of its name, as in Q8_0; "" = not said
}

// String writes the name as it is given on the command line.
func (n Name) String() string {
	s := n.Repo
	if n.Revision != "" {
		s += ":" + n.Revision
	}
	if n.File != "" {
		s += ":" + n.File
	}
	return s
}

func (n Name) revision() string {
	if n.Revision == "" {
		return defaultRevision
	}
	return n.Revision
}

var (
	idPart     = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?$`)
	revisionOK = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+/-]*$`)
	commitOK   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	// quantOK tells GGUF's types, and file names, from revisions.
	quantOK = regexp.MustCompile(`(?i)^(?:(?:[a-z]+-)?(?:i?q[1-9]_[a-z0-9_]+|tq[12]_0|mxfp4(?:_moe)?|b?f16|f32|fp16|fp32)|.+\.gguf)$`)
)

// ParseName reads ORG/NAME, ORG/NAME:REVISION or ORG/NAME:TYPE, where TYPE is a
// type of GGUF files or the name of such a file. It reports whether s can be that.
func ParseName(s string) (Name, bool) {
	repo, tag, tagged := strings.Cut(s, ":")
	org, name, ok := strings.Cut(repo, "/")
	if !ok || !isID(org) || !isID(name) || tagged && !isRevision(tag) {
		return Name{}, false
	}
	n := Name{Repo: repo}
	if quantOK.MatchString(tag) {
		n.File = tag
	} else {
		n.Revision = tag
	}
	return n, true
}

// At returns the name at a revision that is given apart.
func (n Name) At(revision string) (Name, error) {
	switch {
	case revision == "":
		return n, nil
	case !isRevision(revision):
		return n, infer.Errorf(infer.CodeInvalid, "revision", "%q is no revision: a branch, a tag or a commit is needed", revision)
	case n.Revision != "" && n.Revision != revision:
		return n, infer.Errorf(infer.CodeInvalid, "revision", "%s names revision %q, and --revision %q: give one of them", n, n.Revision, revision)
	}
	n.Revision = revision
	return n, nil
}

func isID(s string) bool {
	return len(s) <= maxIDBytes && idPart.MatchString(s) && !strings.Contains(s, "--") && !strings.Contains(s, "..") && !strings.HasSuffix(s, ".git")
}

// isRevision keeps a revision from reaching outside of refs/.
func isRevision(s string) bool {
	return len(s) <= maxRevisionBytes && revisionOK.MatchString(s) && isSafePath(s)
}
