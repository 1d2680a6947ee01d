package provider

import "io"

// File is something to upload. Open is called for every try and again when an upload is
// resumed, so that a retry does not send half a file.
type File struct {
	Name     string
	MIMEType string
	Size     int64
	Open     func() (io.ReadCloser, error)
}

// Media is a file on the provider's side.
type Media struct {
	ID       string
	URL      string
	MIMEType string
	SHA256   []byte // nil when the provider did not say
	Size     int64  // 0 when the provider did not say
}

// Download is an open file. Size is -1 when unknown.
type Download struct {
	Body     io.ReadCloser
	MIMEType string
	Size     int64
}
