package safehttp

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// BenchmarkPost compares Post with net/http without any checks.
func BenchmarkPost(b *testing.B) {
	c, url := endpoint(b, 0, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "ok")
	})
	body := bytes.Repeat([]byte("x"), 1<<10)
	header := http.Header{"Content-Type": {"application/json"}, "X-Svc-Event-Id": {"evt_1"}}
	b.Run("safehttp", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if _, err := c.Post(b.Context(), url, header, body); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		client := &http.Client{Transport: c.transport}
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				request, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
				request.Header = header
				response, err := client.Do(request)
				if err != nil {
					b.Error(err)
					continue
				}
				_, _ = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
		})
	})
}
