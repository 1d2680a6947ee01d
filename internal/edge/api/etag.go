package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// unlessKnown gives a page a tag of all that it shows, and leaves the page out for a caller
// who has it already. What differs each time is no part of the tag: the request id, and the
// seal of the cursor, which stands for the last row shown.
func (c *call) unlessKnown(answer reply) (reply, error) {
	page, is := answer.body.(listEnvelope)
	if !is {
		return reply{}, fmt.Errorf("a %T has no tag", answer.body)
	}
	shown, err := json.Marshal(page.Data)
	if err != nil {
		return reply{}, err
	}
	digest := sha256.New()
	digest.Write(shown)
	if page.HasMore {
		digest.Write([]byte("and more"))
	}
	tag := base64.RawURLEncoding.EncodeToString(digest.Sum(nil)[:18])
	header := http.Header{"Etag": {`W/"` + tag + `"`}, "Cache-Control": revalidate}
	if known(c.request.Header.Values("If-None-Match"), tag) {
		return reply{status: http.StatusNotModified, header: header}, nil
	}
	answer.header = header
	return answer, nil
}

var revalidate = []string{"private, no-cache"}

// known tells whether a caller who sent these values of If-None-Match has the tag. They are
// compared weakly: the mark before a tag does not count.
func known(values []string, tag string) bool {
	for _, value := range values {
		for candidate := range strings.SplitSeq(value, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == `"`+tag+`"` {
				return true
			}
		}
	}
	return false
}
