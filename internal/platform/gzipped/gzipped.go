// Package gzipped tells which callers take gzip.
package gzipped

import (
	"net/http"
	"strings"
)

// Accepted tells whether the caller names gzip in Accept-Encoding, and not with the weight 0.
func Accepted(header http.Header) bool {
	for _, value := range header.Values("Accept-Encoding") {
		for one := range strings.SplitSeq(value, ",") {
			name, weight, _ := strings.Cut(one, ";")
			refused := strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") == "" && weight != ""
			if strings.EqualFold(strings.TrimSpace(name), "gzip") {
				return !refused
			}
		}
	}
	return false
}
