package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultURL = "http://127.0.0.1:8080/v1"
	// callTimeout is longer than the slowest route of the API takes.
	callTimeout    = 40 * time.Second
	maxAnswerBytes = 16 << 20
)

// apiFlags tell a command which Parley it talks to. `parley dev` prints the variables.
type apiFlags struct {
	url, keyFile string
}

func (f *apiFlags) add(command *cobra.Command) {
	command.Flags().StringVar(&f.url, "url", "", "the API, with /v1 (default: PARLEY_URL, else "+defaultURL+")")
	command.Flags().StringVar(&f.keyFile, "key-file", "", "a file with the API key; - reads standard input (default: the key in PARLEY_KEY)")
}

func (f *apiFlags) client(p *program, stdin io.Reader) (*apiClient, error) {
	base := cmp.Or(f.url, p.environment["PARLEY_URL"], defaultURL)
	parsed, err := url.Parse(base)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("--url: %q is not a URL such as %s", base, defaultURL)
	}
	if !strings.HasSuffix(strings.TrimSuffix(base, "/"), "/v1") {
		return nil, fmt.Errorf("--url: %q must end in /v1, as in %s", base, defaultURL)
	}
	key := p.environment["PARLEY_KEY"]
	if f.keyFile != "" {
		file := secretFlags{file: f.keyFile, flag: "--key-file"}
		keys, err := file.read(stdin)
		if err != nil {
			return nil, err
		}
		key = keys[0]
	}
	if key == "" {
		return nil, errors.New("there is no API key: set PARLEY_KEY, as `parley dev` prints it, or give --key-file PATH")
	}
	return &apiClient{base: strings.TrimSuffix(base, "/"), host: parsed.Hostname(), key: key, http: &http.Client{Timeout: callTimeout}}, nil
}

// apiClient calls the public API as any integrator does.
type apiClient struct {
	base, host, key string
	http            *http.Client
}

// apiError is a refusal of the API.
type apiError struct {
	Status int `json:"-"`
	// RetryAfter is how long the API asks to wait; zero if it does not.
	RetryAfter time.Duration `json:"-"`
	Code       string        `json:"code"`
	Message    string        `json:"message"`
	Param      string        `json:"param"`
}

func (e *apiError) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%s (%d %s, %s)", e.Message, e.Status, e.Code, e.Param)
	}
	return fmt.Sprintf("%s (%d %s)", e.Message, e.Status, e.Code)
}

// call sends a request with a JSON body, unless that is nil, and decodes the answer's `data`.
func (c *apiClient) call(ctx context.Context, method, path string, body, into any) error {
	var answer struct {
		Data json.RawMessage `json:"data"`
	}
	if err := c.whole(ctx, method, path, body, &answer); err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer.Data, into)
}

// whole is call for an answer that is decoded whole: a page of a list.
func (c *apiClient) whole(ctx context.Context, method, path string, body, into any) error {
	status, header, answer, err := sendJSON(ctx, c.http, method, c.base+path, c.key, body)
	if err != nil {
		return err
	}
	if status < http.StatusMultipleChoices {
		return json.Unmarshal(answer, into)
	}
	var refused struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(answer, &refused) != nil || refused.Error == nil {
		return fmt.Errorf("%s%s answered %d, not as the API does: is it the address of Parley, with /v1?", c.base, path, status)
	}
	refused.Error.Status = status
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil {
		refused.Error.RetryAfter = time.Duration(seconds) * time.Second
	}
	return refused.Error
}

// sendJSON sends a request with a JSON body, unless that is nil.
func sendJSON(ctx context.Context, client *http.Client, method, address, key string, body any) (
	status int, header http.Header, answer []byte, err error,
) {
	var content io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, nil, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, address, content)
	if err != nil {
		return 0, nil, nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	return response.StatusCode, response.Header, answer, err
}
