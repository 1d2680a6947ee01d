package dispatcher

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"unicode/utf8"
)

// SignatureHeader carries `sha256=` and the hexadecimal HMAC of the raw body.
const SignatureHeader = "X-Hub-Signature-256"

// Send posts a body once and returns the status of the answer, 0 without an answer.
func Send(ctx context.Context, client *http.Client, target Target, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	mac := hmac.New(sha256.New, []byte(target.Secret()))
	mac.Write(body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "facebookexternalua")
	request.Header.Set(SignatureHeader, "sha256="+hex.EncodeToString(mac.Sum(nil)))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is reused
	return response.StatusCode, nil
}

// CheckURL refuses a callback URL that is not absolute, or that is neither http nor https.
func CheckURL(address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return fmt.Errorf("must be an absolute URL, such as https://example.com/callbacks; got %q", address)
	}
	return nil
}

// Verify sends the challenge to a callback URL. The network does so before it accepts the URL.
func Verify(ctx context.Context, client *http.Client, address, token, challenge string) error {
	if err := CheckURL(address); err != nil {
		return fmt.Errorf("the callback URL %w", err)
	}
	parsed, err := url.Parse(address)
	if err != nil {
		return err
	}
	query := parsed.Query()
	query.Set("hub.mode", "subscribe")
	query.Set("hub.challenge", challenge)
	query.Set("hub.verify_token", token)
	parsed.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, parsed.String(), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("the callback URL does not answer: %s", reason(err))
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil || response.StatusCode != http.StatusOK || string(body) != challenge {
		return fmt.Errorf("the callback URL answered %d without the challenge", response.StatusCode)
	}
	return nil
}

// envelope encodes updates as one body, with one entry per entry id and time.
func envelope(updates []Update) []byte {
	var body bytes.Buffer
	body.WriteString(`{"object":"whatsapp_business_account","entry":[`)
	done := make([]bool, len(updates))
	for i, first := range updates {
		if done[i] {
			continue
		}
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"id":"` + first.Entry + `",`)
		if first.Time != 0 {
			body.WriteString(`"time":` + strconv.FormatInt(first.Time, 10) + `,`)
		}
		body.WriteString(`"changes":[`)
		for j := i; j < len(updates); j++ {
			if u := updates[j]; !done[j] && u.Entry == first.Entry && u.Time == first.Time {
				if done[j] = true; j > i {
					body.WriteByte(',')
				}
				body.WriteString(`{"value":`)
				body.Write(u.Value)
				body.WriteString(`,"field":"` + u.Field + `"}`)
			}
		}
		body.WriteString(`]}`)
	}
	body.WriteString(`]}`)
	return escape(body.Bytes())
}

// escape writes non-ASCII characters as \uXXXX and each slash as \/, as the network does. A
// receiver that signs its own encoding of the parsed body gets another signature.
func escape(body []byte) []byte {
	escaped := make([]byte, 0, len(body)+64)
	for i := 0; i < len(body); {
		switch c := body[i]; {
		case c == '/':
			escaped = append(escaped, '\\', '/')
			i++
		case c < utf8.RuneSelf:
			escaped = append(escaped, c)
			i++
		default:
			r, size := utf8.DecodeRune(body[i:])
			if i += size; r > 0xFFFF {
				r -= 0x10000
				escaped = fmt.Appendf(escaped, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
			} else {
				escaped = fmt.Appendf(escaped, `\u%04x`, r)
			}
		}
	}
	return escaped
}
