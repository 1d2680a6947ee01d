// Package statuswriter keeps the status of an HTTP answer, for a log line or a test.
package statuswriter

import "net/http"

// Writer passes an answer on and keeps its status.
type Writer struct {
	http.ResponseWriter

	// Status is 200 until the handler writes another.
	Status int
}

// New wraps the server's writer.
func New(w http.ResponseWriter) *Writer { return &Writer{ResponseWriter: w, Status: http.StatusOK} }

// WriteHeader keeps the status and passes it on.
func (w *Writer) WriteHeader(status int) {
	w.Status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the server's writer.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
