package rules

// FileOf returns a File that is read by read.
func FileOf(path string, read func() ([]byte, error)) Source { return &file{path: path, read: read} }
