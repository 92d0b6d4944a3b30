package compute

// WeightsKeeper is a [Backend] that can keep the form in which it holds matrices in a
// file, and take them from there the next time. What the file holds is checked before
// any of it is used; a file that is missing, damaged or for another key is no error
// but a reason to make it anew.
type WeightsKeeper interface {
	// OpenKept looks for matrices kept in the file at path under key, which stands for
	// all that they are made of. The error says why there are none to be used, and is
	// fs.ErrNotExist if there is no such file.
	OpenKept(path string, key [32]byte) error
	// KeptMatrix returns the matrix that NewMatrix would make of parts, of which only
	// names, shapes and types count. It is not ok if the next one kept is another.
	KeptMatrix(parts ...RawTensor) (m Matrix, ok bool)
	// KeepMatrices writes all matrices that NewMatrix makes from now on to a file that
	// becomes path under key at EndKept.
	KeepMatrices(path string, key [32]byte) error
	// EndKept ends what OpenKept or KeepMatrices began. A file appears whole or, without
	// keep or after an error, not at all.
	EndKept(keep bool) error
}
