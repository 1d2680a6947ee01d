package generate

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Curl is the request as a command line.
func (r Request) Curl(base string) string {
	var line strings.Builder
	body := r.Body != nil
	if body && !printable(string(r.Body)) {
		fmt.Fprintf(&line, "echo %s | base64 -d | ", base64.StdEncoding.EncodeToString(r.Body))
	}
	fmt.Fprintf(&line, "curl -i -X %s %s", r.Method, quoted(base+r.Target))
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			fmt.Fprintf(&line, " -H %s", quoted(name+": "+value))
		}
	}
	switch {
	case !body:
	case printable(string(r.Body)):
		fmt.Fprintf(&line, " --data-binary %s", quoted(string(r.Body)))
	default:
		line.WriteString(" --data-binary @-")
	}
	return line.String()
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' })
}

// quoted is a word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
