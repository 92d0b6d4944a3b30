package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const maxListBytes = 32 << 20

// listing is what a repository holds at one commit.
type listing struct {
	commit string
	files  []File
}

// wireListing is the answer of /api/models/ID/revision/REV?blobs=true.
type wireListing struct {
	SHA      string `json:"sha"`
	Siblings []struct {
		Path   string `json:"rfilename"`
		Size   *int64 `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			SHA256 string `json:"sha256"`
			Size   *int64 `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// list asks for the files of a repository. Those with names that must not
// become paths are left out: a model does not need them.
func (h *Hub) list(ctx context.Context, n Name) (listing, error) {
	u := h.base.JoinPath("api", "models", n.Repo, "revision", url.PathEscape(n.revision()))
	u.RawQuery = "blobs=true"
	var body []byte
	err := h.retry(ctx, func() (err error) {
		body, err = h.get(ctx, u, maxListBytes)
		return err
	})
	if err != nil {
		return listing{}, err
	}
	var wire wireListing
	if err := json.Unmarshal(body, &wire); err != nil {
		return listing{}, fmt.Errorf("%s does not answer as a hub does: its list of files is not JSON of the known form", u.Host)
	}
	if !commitOK.MatchString(wire.SHA) {
		return listing{}, fmt.Errorf("%s does not answer as a hub does: its list of files names no commit", u.Host)
	}
	if len(wire.Siblings) > maxFiles {
		return listing{}, fmt.Errorf("%s has %d files; the limit is %d", n.Repo, len(wire.Siblings), maxFiles)
	}
	l := listing{commit: wire.SHA}
	for _, s := range wire.Siblings {
		if !isSafePath(s.Path) {
			continue
		}
		f := File{Path: s.Path, Size: -1, Hash: s.BlobID}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.LFS != nil {
			f.Hash = s.LFS.SHA256
			if s.LFS.Size != nil {
				f.Size = *s.LFS.Size
			}
		}
		l.files = append(l.files, f)
	}
	return l, nil
}

// get reads a small answer.
func (h *Hub) get(ctx context.Context, u *url.URL, limit int64) ([]byte, error) {
	ctx, watch := watchStalls(ctx, h.o.StallTimeout)
	defer watch.stop()
	resp, err := h.do(ctx, request{method: http.MethodGet, url: u})
	if err != nil {
		return nil, watch.explain(err)
	}
	defer resp.Body.Close() //nolint:errcheck // what matters has been read
	b, err := io.ReadAll(io.LimitReader(watch.reader(resp.Body), limit+1))
	if err != nil {
		return nil, watch.explain(&netError{host: u.Host, err: err})
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s answers with more than %d bytes", u.Host, limit)
	}
	return b, nil
}

// fileURL is where a file of a commit is asked for.
func (h *Hub) fileURL(repo, commit, path string) *url.URL {
	escaped := strings.Split(path, "/")
	for i, p := range escaped {
		escaped[i] = url.PathEscape(p)
	}
	return h.base.JoinPath(repo, "resolve", commit).JoinPath(escaped...)
}

// describe completes what the list does not say of a file, as lists of older
// hubs do not: HEAD of the file gives its hash and size.
func (h *Hub) describe(ctx context.Context, repo, commit string, f *File) error {
	if !isDescribed(*f) {
		u := h.fileURL(repo, commit, f.Path)
		err := h.retry(ctx, func() error {
			resp, err := h.do(ctx, request{method: http.MethodHead, url: u, onlyHub: true})
			if err != nil {
				return err
			}
			_ = resp.Body.Close() // it has none
			f.Hash = etag(resp.Header.Get("X-Linked-Etag"), resp.Header.Get("ETag"))
			size := resp.Header.Get("X-Linked-Size")
			if size == "" && resp.StatusCode == http.StatusOK {
				size = resp.Header.Get("Content-Length")
			}
			if f.Size, err = strconv.ParseInt(size, 10, 64); err != nil {
				f.Size = -1
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case !hashOK.MatchString(f.Hash):
		return fmt.Errorf("%s: the hub gives no hash to check it with", f.Path)
	case f.Size < 0 || f.Size > maxFileSize:
		return fmt.Errorf("%s: the hub gives no size, or one above %d bytes", f.Path, int64(maxFileSize))
	}
	return nil
}

func isDescribed(f File) bool { return f.Hash != "" && f.Size >= 0 }

var quoted = regexp.MustCompile(`^(?:W/)?"(.*)"$`)

// etag returns the first tag that is given, without its quotes.
func etag(values ...string) string {
	for _, v := range values {
		if v != "" {
			return quoted.ReplaceAllString(v, "$1")
		}
	}
	return ""
}
