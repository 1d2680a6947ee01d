// Package browser drives a real Chromium in tests. With PARLEY_BROWSER=none the tests that need one are
// skipped.
package browser

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Patience is how long the browser may take for one step on a busy machine.
const Patience = 3 * time.Minute

// Browser is one window.
type Browser struct {
	// Context is chromedp's handle of the window.
	Context context.Context //nolint:containedctx // as above

	t testing.TB
}

// chromium returns the path of the browser; it is installed once for all tests of a process.
var chromium = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	path, err := exec.Command(filepath.Join(filepath.Dir(here), "../../../scripts/browser.sh")).Output()
	return strings.TrimSpace(string(path)), err
})

// Open opens a window that is closed when the test ends.
func Open(t testing.TB, more ...chromedp.ExecAllocatorOption) *Browser {
	t.Helper()
	if os.Getenv("PARLEY_BROWSER") == "none" {
		t.Skip("PARLEY_BROWSER=none")
	}
	path, err := chromium()
	require.NoError(t, err, "scripts/browser.sh finds or installs Chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(Patience))
	allocator, free := chromedp.NewExecAllocator(t.Context(), append(options, more...)...)
	t.Cleanup(free)
	window, closeWindow := chromedp.NewContext(allocator)
	t.Cleanup(closeWindow)
	limited, cancel := context.WithTimeout(window, 4*Patience)
	t.Cleanup(cancel)
	return &Browser{Context: limited, t: t}
}

// Do runs actions.
func (b *Browser) Do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.Context, steps...))
}

// Sees waits until an expression is true on the page. While an element that it names is missing, the
// expression throws and counts as false.
func (b *Browser) Sees(expression string) {
	b.t.Helper()
	quiet := `(() => { try { return Boolean(` + expression + `) } catch { return false } })()`
	// A page that is being left ends an evaluation with an error; the next page is asked again.
	require.Eventually(b.t, func() bool {
		seen, err := chromedp.Run(b.Context, chromedp.Evaluate[bool](quiet))
		return err == nil && seen
	}, Patience, 50*time.Millisecond, expression)
}

// Press clicks an element of a list that the page may draw again at any time: a node that was found a moment ago may be gone.
func (b *Browser) Press(selector string) {
	b.t.Helper()
	b.Sees(`(document.querySelector(` + strconv.Quote(selector) + `).click(), true)`)
}

// Tab opens another tab of the same browser: it has the same cookies.
func (b *Browser) Tab() *Browser {
	b.t.Helper()
	tab, closeTab := chromedp.NewContext(b.Context)
	b.t.Cleanup(closeTab)
	return &Browser{Context: tab, t: b.t}
}

// Requests records the requests of the window from now on, those that its policy blocks too, and returns a function that
// tells their addresses.
func (b *Browser) Requests() func() []string {
	b.t.Helper()
	var mu sync.Mutex
	var sent []string
	events := chromedp.Events(b.Context, network.RequestWillBeSent)
	go func() {
		for event, err := range events {
			if err != nil {
				return // the window was closed
			}
			mu.Lock()
			sent = append(sent, event.Request.URL)
			mu.Unlock()
		}
	}()
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(sent)
	}
}

// axe is the script of axe-core, which is pinned with the other tools of tools/clients.
var axe = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(here), "../../..")
	if _, err := exec.Command(filepath.Join(root, "scripts/tool.sh"), "tsc").Output(); err != nil { // installs all of them
		return "", err
	}
	script, err := os.ReadFile(filepath.Join(root, "tools/clients/node_modules/axe-core/axe.min.js"))
	return string(script), err
})

// Violations are the serious and critical findings of axe, the accessibility checker, on the page.
func (b *Browser) Violations() []string {
	b.t.Helper()
	script, err := axe()
	require.NoError(b.t, err)
	_, err = chromedp.Run(b.Context, chromedp.Evaluate[chromedp.Void](script+"; undefined"))
	require.NoError(b.t, err)
	found, err := chromedp.Run(b.Context, chromedp.Evaluate[[]string](`axe.run().then((result) => result.violations
		.filter((one) => ["serious", "critical"].includes(one.impact))
		.map((one) => one.id + ": " + one.nodes.map((node) => node.html).join(", ")))`, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return found
}

// Scheme has the page see that the user prefers a colour scheme: "light" or "dark".
func (b *Browser) Scheme(name string) {
	b.t.Helper()
	preferred := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	b.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, preferred)
		return err
	}))
}

// Screenshot writes a picture of the page into the folder PARLEY_SCREENSHOTS, if it is set.
func (b *Browser) Screenshot(name string) {
	b.t.Helper()
	shot, err := chromedp.Run(b.Context, chromedp.CaptureScreenshot())
	require.NoError(b.t, err)
	if folder := os.Getenv("PARLEY_SCREENSHOTS"); folder != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o600))
	}
}
