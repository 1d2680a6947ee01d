package guides_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// link is a link of a document, as it is written.
type link struct{ text, target string }

var (
	linked  = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} (.+)$`)
	quoted  = regexp.MustCompile("`[^`]*`")
	comment = regexp.MustCompile(`<!--.*?-->`)
	// noAnchor is what the anchor of a heading leaves out.
	noAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// page is what a document offers to others, and where it leads.
type page struct {
	anchors map[string]bool
	links   []link
}

// read reads a document without its fenced blocks.
func read(t *testing.T, path string) (p page) {
	t.Helper()
	document, err := os.ReadFile(path)
	require.NoError(t, err)
	p.anchors = map[string]bool{}
	fenced := false
	for line := range strings.Lines(string(document)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		if fenced {
			continue
		}
		line = comment.ReplaceAllString(strings.TrimSpace(line), "")
		if title := heading.FindStringSubmatch(line); title != nil {
			p.anchors[anchor(p.anchors, title[1])] = true
		}
		for _, one := range linked.FindAllStringSubmatch(quoted.ReplaceAllString(line, "code"), -1) {
			p.links = append(p.links, link{text: one[1], target: one[2]})
		}
	}
	return p
}

// anchor is the name that a heading gets where Markdown is shown. A second heading with the same words gets a number.
func anchor(taken map[string]bool, title string) string {
	name := strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
	for number, first := 1, name; taken[name]; number++ {
		name = fmt.Sprintf("%s-%d", first, number)
	}
	return name
}

// documents are the README and everything below docs.
func documents(t *testing.T) []string {
	t.Helper()
	paths := []string{filepath.Join(root, "README.md")}
	require.NoError(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}

func TestLinks_LeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, path := range documents(t) {
		for _, one := range read(t, path).links {
			if strings.Contains(one.target, "://") {
				continue
			}
			file, fragment, _ := strings.Cut(one.target, "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), filepath.FromSlash(file))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: [%s] leads to %s, which does not exist", path, one.text, one.target)
			} else if fragment != "" && !read(t, target).anchors[fragment] {
				t.Errorf("%s: [%s] leads to %s, which has no such heading", path, one.text, one.target)
			}
		}
	}
}

// A newcomer finds the answer in two clicks: README, docs/index.md, the heading that answers. TestLinks_LeadSomewhere tells
// that the headings exist.
func TestQuestions_AreTwoClicksFromTheReadme(t *testing.T) {
	t.Parallel()
	readme := read(t, filepath.Join(root, "README.md"))
	require.True(t, slices.ContainsFunc(readme.links, func(one link) bool { return strings.HasPrefix(one.target, "docs/index.md") }),
		"README.md has no link to docs/index.md")
	index, err := os.ReadFile(filepath.Join(root, "docs", "index.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(index), "\n## Twenty questions\n")
	require.True(t, found)
	list, _, _ := strings.Cut(after, "\n## ")
	number := 0
	for line := range strings.Lines(list) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		number++
		require.Regexp(t, fmt.Sprintf(`^%d\. \[[^\]]+\?\]\([a-z/]+\.md#[a-z0-9-]+\)`, number), line, "a question that leads to a heading")
	}
	require.Equal(t, 20, number)
}

func TestAnchor(t *testing.T) {
	t.Parallel()
	require.Equal(t, "why-was-my-message-not-delivered", anchor(nil, "Why was my message not delivered?"))
	require.Equal(t, "the-24-hour-window", anchor(nil, "The 24-hour window"))
	require.Equal(t, "go-1", anchor(map[string]bool{"go": true}, "Go"))
}
