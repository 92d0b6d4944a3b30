// Package hub fetches models from a Hugging Face hub into the cache that the
// Python libraries use, so that each finds what the other has fetched.
//
// A [Name] says what is wanted. [Hub.Pull] asks the hub for the list of files
// (GET /api/models/ID/revision/REV?blobs=true), chooses those that the loader
// reads, and fetches what is not in the cache from /ID/resolve/COMMIT/FILE, which
// redirects large files to a host of their own. The layout is that of
// https://huggingface.co/docs/hub/local-cache:
//
//	models--ORG--NAME/blobs/HASH                content, named by its hash
//	models--ORG--NAME/blobs/HASH.incomplete     its beginning, while it comes in
//	models--ORG--NAME/snapshots/COMMIT/FILE     link to ../../blobs/HASH
//	models--ORG--NAME/refs/REVISION             the commit, as text
//	.locks/models--ORG--NAME/HASH.lock          locked (flock) during a download
//
// Ranges of a file come in side by side but are written in order: an incomplete
// file is always the beginning of the whole one. So it can be resumed after any
// end of the process, by whoever, and is hashed as it is written.
//
// Nothing from the network is trusted: lists, names, sizes and redirects are
// bounded and checked, contents compared with their hash. The token goes to the
// hub's own address only, and appears in no message; nor do the addresses that it
// redirects to, which are signed.
package hub
