package guides_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fence is a fenced block of a document.
type fence struct {
	// mark and name are the comment on the line above, <!-- mark: name -->; empty without one.
	mark, name string
	language   string
	text       string
	// exits is the status with which a block ends, 0 unless the mark says <!-- run: name, exits 1 -->.
	exits int
	line  int
}

var (
	opening = regexp.MustCompile("^```([a-z]+)$")
	marked  = regexp.MustCompile(`^<!-- ([a-z]+): ([a-z0-9_. -]+?)(?:, exits ([0-9]+))? -->$`)
)

// fencesOf are the blocks of a document, in order.
func fencesOf(t *testing.T, path string) (found []fence) {
	t.Helper()
	document, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(string(document), "\n")
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "```") {
			continue
		}
		opened := opening.FindStringSubmatch(lines[i])
		require.NotNil(t, opened, "%s:%d: the block names no language", path, i+1)
		one := fence{language: opened[1], line: i + 1}
		if mark := marked.FindStringSubmatch(lines[max(0, i-1)]); mark != nil {
			one.mark, one.name = mark[1], mark[2]
			one.exits, _ = strconv.Atoi(mark[3]) // 0 without one
		}
		for i++; i < len(lines) && lines[i] != "```"; i++ {
			one.text += lines[i] + "\n"
		}
		found = append(found, one)
	}
	return found
}

// TestGuides_NoBlockIsLeftOut demands that each block of a guide is run, or compared with what was run. A command without a mark
// must stand in the list "Not run by a test" of docs/index.md.
func TestGuides_NoBlockIsLeftOut(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("../index.md")
	require.NoError(t, err)
	_, notRun, found := strings.Cut(string(index), "\n## Not run by a test\n")
	require.True(t, found)
	guides, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, path := range append(guides, "../index.md", "../../README.md") {
		run, names := false, map[string]bool{}
		for _, one := range fencesOf(t, path) {
			switch {
			case one.mark == "run", one.mark == "quickstart" && path == "../../README.md":
				require.False(t, names[one.name] && one.mark == "run", "%s:%d: a second block %s", path, one.line, one.name)
				run, names[one.name] = true, true
			case one.language == "json", one.language == "text":
				require.True(t, run || one.mark != "", "%s:%d: no block above was run", path, one.line)
			default:
				first, _, _ := strings.Cut(one.text, "\n")
				require.Contains(t, notRun, "`"+first+"`", "%s:%d: the block is neither run nor in the list of docs/index.md", path, one.line)
			}
		}
		_, ran := sessions[filepath.Base(path)]
		require.Equal(t, run && !strings.HasSuffix(path, "README.md"), ran, "%s: its blocks are run by TestGuides if it has any", path)
	}
}
