package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"
)

const bom = "\xef\xbb\xbf"

// altered reports the first byte at which two bodies differ, and the usual cause.
func altered(original, received []byte) finding {
	at := 0
	for at < min(len(original), len(received)) && original[at] == received[at] {
		at++
	}
	found := finding{step: stepAltered}
	found.says = fmt.Sprintf("first difference at byte %d, counted from 0: sent %s, received %s (of %d bytes sent, %d received)",
		at, byteAt(original, at), byteAt(received, at), len(original), len(received))
	found.advise(
		fmt.Sprintf("Sent:     %s", around(original, at)),
		fmt.Sprintf("Received: %s", around(received, at)))
	if hint := alteration(original, received); hint != "" {
		found.advise(hint)
	}
	found.advise("Verify the raw bytes as they came from the socket, before anything parses, decodes or logs them.")
	return found
}

func byteAt(body []byte, at int) string {
	if at >= len(body) {
		return "the end"
	}
	if body[at] >= utf8.RuneSelf {
		return fmt.Sprintf("0x%02x", body[at])
	}
	return fmt.Sprintf("0x%02x %s", body[at], strconv.QuoteRuneToASCII(rune(body[at])))
}

// around quotes a few bytes before and after a position.
func around(body []byte, at int) string {
	from, to := max(0, at-20), min(len(body), at+20)
	return strconv.QuoteToASCII(string(body[min(from, to):to]))
}

// alteration recognises the changes that proxies and frameworks usually make.
func alteration(original, received []byte) string {
	crlf := func(body []byte) []byte { return bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")) }
	line := func(body []byte) []byte { return bytes.TrimRight(body, "\r\n") }
	switch {
	case len(received) == 0:
		return "The body is empty: another part of your server read it first."
	case bytes.Equal(received, append([]byte(bom), original...)):
		return "A byte order mark (EF BB BF) was put in front: the body was saved or decoded as text."
	case bytes.Equal(line(received), original):
		return "A line break was added at the end: by an editor, by echo (use printf '%s'), or by a line-wise reader."
	case bytes.Equal(line(original), received):
		return "The line break at the end was removed: the body was trimmed."
	case bytes.Equal(crlf(original), crlf(received)):
		return "Line breaks were changed between LF and CRLF: the body was handled as text."
	case bytes.HasPrefix(original, received):
		return "The end is missing: look for a limit on the size of bodies, or a reader that stops early."
	case bytes.Equal(bytes.ToValidUTF8(original, []byte("\uFFFD")), bytes.ToValidUTF8(received, []byte("\uFFFD"))):
		return "Bytes that are not UTF-8 were replaced: the body was decoded as text."
	case sameJSON(original, received):
		return "It is the same JSON in other bytes: the body was parsed and encoded again (spaces, order of keys, escapes)."
	}
	return ""
}

func sameJSON(a, b []byte) bool {
	var left, right any
	return json.Unmarshal(a, &left) == nil && json.Unmarshal(b, &right) == nil && reflect.DeepEqual(left, right)
}

// restored returns bodies that may have been sent, for the case that there is no original to
// compare with: it undoes the usual changes.
func restored(received []byte) [][]byte {
	var compact bytes.Buffer
	if err := json.Compact(&compact, received); err != nil {
		compact.Reset()
	}
	unix := bytes.ReplaceAll(received, []byte("\r\n"), []byte("\n"))
	return [][]byte{
		bytes.TrimPrefix(received, []byte(bom)),
		bytes.TrimRight(received, "\r\n"),
		append(bytes.Clone(received), '\n'),
		unix,
		bytes.TrimRight(unix, "\n"),
		bytes.ReplaceAll(unix, []byte("\n"), []byte("\r\n")),
		compact.Bytes(),
	}
}
