package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// withETag adds an ETag to a page of a list, or answers 304 when the caller sent the same tag in
// If-None-Match. The tag is a hash of the rows and of has_more. The request id and the cursor are left
// out, because they differ each time; the cursor only repeats the position of the last row.
func (c *call) withETag(answer reply) (reply, error) {
	page, is := answer.body.(listEnvelope)
	if !is {
		return reply{}, fmt.Errorf("a %T has no tag", answer.body)
	}
	shown, err := json.Marshal(page.Data)
	if err != nil {
		return reply{}, err
	}
	if page.HasMore {
		shown = append(shown, "and more"...)
	}
	return c.tagged(answer, shown), nil
}

// withTagOf answers 200 with a resource and an ETag, which is a hash of what the resource shows, or
// 304 when the caller sent the same tag.
func (c *call) withTagOf(resource any) (reply, error) {
	shown, err := json.Marshal(resource)
	if err != nil {
		return reply{}, err
	}
	return c.tagged(c.answer(http.StatusOK, resource), shown), nil
}

func (c *call) tagged(answer reply, shown []byte) reply {
	digest := sha256.Sum256(shown)
	tag := base64.RawURLEncoding.EncodeToString(digest[:18])
	header := http.Header{"Etag": {`W/"` + tag + `"`}, "Cache-Control": revalidate}
	if matchesTag(c.request.Header.Values("If-None-Match"), tag) {
		return reply{status: http.StatusNotModified, header: header}
	}
	answer.header = header
	return answer
}

var revalidate = []string{"private, no-cache"}

// matchesTag tells whether values of If-None-Match contain the tag. The comparison is weak: `W/` is
// ignored.
func matchesTag(values []string, tag string) bool {
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
