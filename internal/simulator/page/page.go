// Package page serves the pages of the simulator: the phone, the signup dialog and the script
// that opens it. They are static files that load nothing from other servers.
package page

import (
	"embed"
	"net/http"
	"strings"
)

//go:embed files
var files embed.FS

// Handler serves the phone at / and its files under /page/.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/page/")
		switch r.URL.Path {
		case "/":
			name = "index.html"
		case "/favicon.ico":
			name = "icon.svg"
		}
		serve(w, r, name)
	})
}

// ServeSDK serves the replacement for the network's own script.
func ServeSDK(w http.ResponseWriter, r *http.Request) { serve(w, r, "sdk.js") }

// ServeDialog serves the signup dialog.
func ServeDialog(w http.ResponseWriter, r *http.Request) { serve(w, r, "signup.html") }

func serve(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	file, err := files.ReadFile("files/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentType(name))
	if strings.HasSuffix(name, ".html") { // images and sounds may be links that a business sent
		w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src * data:; media-src *; style-src 'self' 'unsafe-inline'")
	}
	_, _ = w.Write(file) //nolint:gosec // one of the embedded files
}

func contentType(name string) string {
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "html":
		return "text/html; charset=utf-8"
	case "css":
		return "text/css; charset=utf-8"
	case "js":
		return "text/javascript; charset=utf-8"
	default:
		return "image/svg+xml"
	}
}
