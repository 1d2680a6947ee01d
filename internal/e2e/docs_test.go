package e2e_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/testkit/browser"
)

// manual is a running `parley dev` and the commands that its reference shows.
type manual struct {
	t     *testing.T
	ready map[string]string
	// commands are by operation (`POST /labels`) and name of the body's example, which may be "".
	commands map[string]map[string]string
	// first are the names of the examples that the page shows at first.
	first map[string]string
}

func newManual(t *testing.T) *manual {
	t.Helper()
	_, ready := develop(t, newFixture(t).missingDatabase(t))
	caller := &client{base: ready["base_url"], http: newHTTP()}
	served, err := caller.get(t.Context(), "/openapi.json")
	require.NoError(t, err)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(served.body, &document))
	m := &manual{t: t, ready: ready, commands: map[string]map[string]string{}, first: map[string]string{}}
	for path, item := range document.Paths {
		for method, encoded := range item {
			var operation map[string]json.RawMessage
			if json.Unmarshal(encoded, &operation) != nil || operation["x-codeSamples"] == nil {
				continue // the parameters of the path
			}
			var samples []struct{ Example, Source string }
			require.NoError(t, json.Unmarshal(operation["x-codeSamples"], &samples))
			name := strings.ToUpper(method) + " " + path
			m.first[name], m.commands[name] = samples[0].Example, map[string]string{}
			for _, sample := range samples {
				m.commands[name][sample.Example] = sample.Source
			}
		}
	}
	return m
}

// paste runs a command in a shell as it is shown, and returns the status of the answer.
func (m *manual) paste(command, directory string) int {
	m.t.Helper()
	// The function adds what tells the status; the command itself stays as it is.
	script := `curl() { command curl --silent --show-error --output /dev/stderr --write-out '%{http_code}' "$@"; }` + "\n" + command
	shell := exec.CommandContext(m.t.Context(), "bash", "-c", script)
	shell.Dir = directory
	shell.Env = append(os.Environ(), "PARLEY_KEY="+m.ready["api_key"], "PHONE_NUMBER_ID="+m.ready["phone_number_id"])
	var answer strings.Builder
	shell.Stderr = &answer
	printed, err := shell.Output()
	require.NoError(m.t, err, "%s\n%s", command, answer.String())
	status, err := strconv.Atoi(string(printed))
	require.NoError(m.t, err)
	if status >= 300 {
		m.t.Log(command, answer.String())
	}
	return status
}

// TestDocs_Commands_WorkWhenPasted runs the commands of operations that need no id of another resource.
func TestDocs_Commands_WorkWhenPasted(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	directory := t.TempDir()
	photo, err := os.Create(filepath.Join(directory, "photo.jpg"))
	require.NoError(t, err)
	require.NoError(t, jpeg.Encode(photo, image.NewRGBA(image.Rect(0, 0, 8, 8)), nil))
	require.NoError(t, photo.Close())
	for _, operation := range []string{
		"POST /labels", "POST /customers", "POST /webhook_subscriptions", "POST /media",
		"POST /{phone_number_id}/register", "POST /{phone_number_id}/contacts", "POST /{phone_number_id}/messages",
		"POST /{phone_number_id}/messages/validate", "POST /{phone_number_id}/templates", "POST /{phone_number_id}/templates/sync",
		"GET /health", "GET /openapi.json", "GET /me", "GET /accounts", "GET /labels", "GET /media", "GET /customers",
		"GET /webhook_subscriptions", "GET /webhook_deliveries", "GET /{phone_number_id}/messages", "GET /{phone_number_id}/templates",
		"GET /{phone_number_id}/conversations", "GET /{phone_number_id}/contacts",
	} {
		status := m.paste(m.commands[operation][m.first[operation]], directory)
		require.Equal(t, 2, status/100, "%s answered %d", operation, status)
	}
}

// reader reads the reference in a browser.
type reader struct {
	*manual
	*browser.Browser
}

// open opens the page anew, at an operation unless it is "".
func (r *reader) open(operation string) {
	r.t.Helper()
	r.Do(chromedp.Navigate("about:blank"), chromedp.Navigate(r.ready["public_url"]+"/docs"+anchor(operation)))
	r.Sees(`document.querySelector("h1").textContent.includes("Parley API")`)
}

func anchor(operation string) string {
	if operation == "" {
		return ""
	}
	method, path, _ := strings.Cut(operation, " ")
	tag := map[string]string{"/labels": "labels", "/{phone_number_id}/messages": "messages"}[path]
	return "#tag/" + tag + "/" + method + path
}

// shows waits until an operation shows a command.
func (r *reader) shows(operation, command string) {
	r.t.Helper()
	section := `section[id$="` + strings.TrimPrefix(anchor(operation), "#") + `"]`
	r.Sees(fmt.Sprintf(`document.querySelector(%q).textContent.trim() === %q`, section+" .request-card code", command))
}

// requireAccessible checks what axe finds, but for two findings in the viewer's own lists of operations.
func (r *reader) requireAccessible(name string) {
	r.t.Helper()
	found := slices.DeleteFunc(r.Violations(), func(one string) bool {
		return strings.HasPrefix(one, "label-content-name-mismatch: ") || strings.HasPrefix(one, "scrollable-region-focusable: ")
	})
	require.Empty(r.t, found, name)
}

// TestDocs_Browser_ShowsTheContract reads the page as the system's setting asks for, on a phone and on a desktop. All requests go
// to the server itself.
func TestDocs_Browser_ShowsTheContract(t *testing.T) {
	t.Parallel()
	m := newManual(t)
	const send = "POST /{phone_number_id}/messages"
	for scheme, setting := range map[string]string{"dark": "preferredColorScheme=0", "light": "preferredColorScheme=1"} {
		r := &reader{manual: m, Browser: browser.Open(t, chromedp.Flag("blink-settings", setting))}
		requests := r.Requests()
		for size, view := range map[string]chromedp.Action[chromedp.Void]{
			"phone":   chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch),
			"desktop": chromedp.EmulateViewport(1280, 900),
		} {
			name := "docs-" + size + "-" + scheme
			r.Do(view)
			r.open("")
			r.Sees(`document.body.classList.contains("` + scheme + `-mode")`)
			r.Sees(`document.documentElement.scrollWidth <= innerWidth`)
			r.Screenshot(name)
			r.open("POST /labels")
			r.shows("POST /labels", m.commands["POST /labels"][""])
			r.Screenshot(name + "-operation")
			if size == "desktop" { // axe takes long, and the two sizes show the same
				r.requireAccessible(name + "-operation")
			}
		}
		if scheme == "light" {
			r.Do(chromedp.EmulateViewport(1280, 900))
			r.chooseAnExample(send)
			r.searchByKeyboard()
		}
		for _, address := range requests() {
			own := strings.HasPrefix(address, m.ready["public_url"]+"/") || strings.HasPrefix(address, "data:") || address == "about:blank"
			require.True(t, own, "the page asks for %s", address)
		}
		require.Contains(t, requests(), m.ready["base_url"]+"/openapi.json")
	}
}

// chooseAnExample chooses another example of a body: the command is that of the example.
func (r *reader) chooseAnExample(operation string) {
	r.t.Helper()
	r.open(operation)
	r.shows(operation, r.commands[operation]["text"])
	r.Press(`section[id$="POST/{phone_number_id}/messages"] .request-card-footer button`)
	r.Sees(`([...document.querySelectorAll("[role=option]")].find((one) => one.textContent.includes("A list to choose from")).click(), true)`)
	r.shows(operation, r.commands[operation]["list"])
}

// searchByKeyboard finds an event without a pointer.
func (r *reader) searchByKeyboard() {
	r.t.Helper()
	r.open("")
	r.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	r.Sees(`document.activeElement.role === "combobox"`)
	r.Do(chromedp.KeyEvent("message.received"))
	r.Sees(`document.querySelector("[role=option]").textContent.includes("message.received: ")`)
	r.Do(chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	r.Sees(`location.hash.includes("message.received")`)
	r.Sees(`[...document.querySelectorAll(".request-card code")].some((one) => one.textContent.includes("chat_business_account"))`)
}
