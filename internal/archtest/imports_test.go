// Package archtest has the architecture as data: which package may import which, how large a file
// may grow, and which names stay inside a package. Each mistake is reported in one sentence.
package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/parley-chat/parley/"

// domain is the graph of the foreign keys. A package may import the packages whose tables its own
// tables reference. It may also import audit, which references no table, to record its verbs. A
// webhook subscription lists numbers in an array, which can have no foreign key; webhooks may
// import accounts all the same.
func domain() map[string][]string {
	return map[string][]string{
		"audit":     {},
		"orgs":      {"audit"},
		"quota":     {"orgs"},
		"apikeys":   {"orgs", "audit"},
		"apilogs":   {"orgs", "apikeys"},
		"labels":    {"orgs"},
		"events":    {},
		"customers": {"orgs", "events", "audit"},
		"accounts":  {"orgs", "customers", "audit"},
		// A link that is used connects an account.
		"setuplinks":        {"orgs", "customers", "accounts", "events", "audit"},
		"callbacks":         {"orgs", "accounts", "audit"},
		"templates":         {"orgs", "accounts"},
		"media":             {"orgs", "accounts"},
		"library":           {"orgs", "media"},
		"webhooks":          {"orgs", "accounts", "events", "audit"},
		"contacts":          {"orgs", "accounts", "labels", "events", "contacts/identity"},
		"contacts/identity": {},
		"messages/content":  {},
		// A status finds its number's callbacks: messages ask whether one still waits.
		"messages": {
			"orgs", "accounts", "customers", "templates", "contacts", "conversations", "callbacks", "media", "library", "events", "quota",
			"messages/content",
		},
		"conversations": {"orgs", "accounts", "contacts", "labels", "events", "audit"},
		// These have no tables. They ask others to delete, and about a message.
		"retention": {"orgs", "messages", "events", "webhooks"},
		"timeline":  {"orgs", "accounts", "messages", "events", "webhooks", "apilogs"},
	}
}

// adapter translates between the provider's words and ours. Only app imports it.
const adapter = "internal/provider/cloud"

// layers lists which parts of the tree a part may import, besides itself.
func layers() map[string][]string {
	return map[string][]string{
		"openapi":           {"internal/platform", "internal/fault"},
		"schema":            {"internal/platform"},
		"internal/fault":    {},
		"internal/platform": {"internal/fault"},
		"internal/provider": {"internal/platform", "internal/fault"},
		adapter:             {"internal/provider", "internal/platform", "internal/fault"},
		"internal/domain":   {"internal/provider", "internal/platform", "internal/fault"},
		"internal/cell":     {"internal/domain", "internal/provider", "internal/platform", "internal/fault"},
		"internal/edge":     {"internal/cell", "internal/domain", "internal/provider", "internal/platform", "internal/fault", "openapi"},
		"internal/app": {
			"internal/edge", "internal/cell", "internal/domain", adapter, "internal/provider", "internal/platform", "internal/fault",
			"openapi", "schema",
		},
		"internal/simulator": {"internal/platform"},
		"cmd":                {"internal/simulator", "internal/app", "internal/provider", "internal/domain", "internal/platform", "internal/fault"},
	}
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func TestImports_OnlyAllowedDirections(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(from, "internal/testkit") || strings.HasPrefix(from, "internal/archtest") || strings.HasPrefix(from, "internal/e2e") {
			continue
		}
		for _, imported := range p.Imports {
			if to, ours := strings.CutPrefix(imported, module); ours {
				checkImport(t, from, to)
			}
		}
	}
}

func checkImport(t *testing.T, from, to string) {
	t.Helper()
	fromNoun, fromDomain := strings.CutPrefix(from, "internal/domain/")
	toNoun, toDomain := strings.CutPrefix(to, "internal/domain/")
	if fromDomain && toDomain {
		allowed, known := domain()[fromNoun]
		if !known {
			t.Errorf("domain/%s has no line in the graph: add what its foreign keys point to", fromNoun)
		} else if !slices.Contains(allowed, toNoun) {
			t.Errorf("domain/%s must not import domain/%s: no foreign key points that way", fromNoun, toNoun)
		}
		return
	}
	part, target := partOf(from), partOf(to)
	if part == target {
		return
	}
	allowed, known := layers()[part]
	if !known {
		t.Errorf("%s is in no part of the architecture: add its part to layers()", from)
	} else if !slices.Contains(allowed, target) {
		t.Errorf("%s must not import %s", from, to)
	}
}

func partOf(path string) string {
	if path == adapter || strings.HasPrefix(path, adapter+"/") {
		return adapter
	}
	segments := strings.SplitN(path, "/", 3)
	if segments[0] == "internal" && len(segments) > 1 {
		return segments[0] + "/" + segments[1]
	}
	return segments[0]
}

func packages(t *testing.T) []pkg {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...")
	command.Dir = root(t)
	output, err := command.Output()
	require.NoError(t, err)
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// maxLines is the hard limit of a file; the aim is 300.
const maxLines = 500

func TestFiles_AtMostMaxLines(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(root(t), func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == ".bin" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.HasPrefix(content, []byte("// Code generated ")) {
			return err
		}
		if lines := bytes.Count(content, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines: split it before it passes %d", path, lines, maxLines)
		}
		return err
	})
	require.NoError(t, err)
}

// TestProviderWords_OnlyInAdapterAndSimulator finds brand names of the messaging network in other
// packages. The few names that the public contract contains are allowed.
func TestProviderWords_OnlyInAdapterAndSimulator(t *testing.T) {
	t.Parallel()
	free := regexp.MustCompile(`(?i)whatsapp_?(accounts?|number_not_verified|registration_failed|upstream_error)`)
	words := regexp.MustCompile(`(?i)whatsapp|facebook|\bwaba|fbsbx|\bsmb_`)
	for _, part := range []string{"internal", "cmd", "schema"} {
		err := filepath.WalkDir(filepath.Join(root(t), part), func(path string, entry os.DirEntry, err error) error {
			place, _ := filepath.Rel(root(t), path)
			skipped := slices.Contains([]string{adapter, "internal/simulator", "internal/e2e/network", "internal/testkit/network", "internal/archtest"}, place)
			if err == nil && entry.IsDir() && skipped {
				return filepath.SkipDir
			}
			ours := filepath.Ext(path) == ".sql" || filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go")
			if err != nil || !ours {
				return err
			}
			content, err := os.ReadFile(path)
			if word := words.Find(free.ReplaceAll(content, nil)); word != nil {
				t.Errorf("%s says %q: that word belongs to %s and the simulator", place, word, adapter)
			}
			return err
		})
		require.NoError(t, err)
	}
}

// unwrapped lists names of engines, and the parts of the tree that may use them.
func unwrapped() map[string][]string {
	return map[string][]string{
		".Pool()":    {"internal/platform", "internal/testkit", "internal/app", "internal/e2e", "cmd"},
		"pgxpool":    {"internal/platform", "internal/testkit", "internal/app", "internal/e2e", "cmd"},
		"tx.Raw()":   {"internal/platform/jobs", "internal/platform/postgres"},
		"riverqueue": {"internal/platform/jobs", "internal/platform/lanes/property_", "cmd/bench"}, // the property test acts as River
		// Each program and test that links the SDK takes seconds longer to link.
		"aws-sdk-go":               {"internal/platform/bucket/s3"},
		"s3blob":                   {"internal/platform/bucket/s3"},
		"platform/bucket/s3" + `"`: {"internal/platform/bucket/s3", "internal/app"},
	}
}

func TestEngines_OnlyUsedByTheirPackages(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root(t), part), func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.Contains(path, "archtest") {
				return err
			}
			content, err := os.ReadFile(path)
			for words, parts := range unwrapped() {
				within := func(part string) bool { return strings.HasPrefix(path, filepath.Join(root(t), part)) }
				if bytes.Contains(content, []byte(words)) && !slices.ContainsFunc(parts, within) {
					t.Errorf("%s uses %s: only %s may", path, words, strings.Join(parts, ", "))
				}
			}
			return err
		})
		require.NoError(t, err)
	}
}
