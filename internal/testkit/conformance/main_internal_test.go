package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// results has events as `go test -json` prints them.
const results = `
{"Time":"2026-03-14T09:26:53Z","Action":"pass","Package":"github.com/parley-chat/parley/schema","Test":"TestGood","Elapsed":0.1}
{"Action":"run","Package":"github.com/parley-chat/parley/schema","Test":"TestStarted"}
{"Action":"skip","Package":"github.com/parley-chat/parley/schema","Test":"TestSkipped"}
{"Action":"fail","Package":"github.com/parley-chat/parley/schema","Test":"TestFailed"}
{"Action":"pass","Package":"github.com/parley-chat/parley/schema","Test":"TestParts/good"}
{"Action":"skip","Package":"github.com/parley-chat/parley/schema","Test":"TestParts/bad/inside"}
{"Action":"pass","Package":"github.com/parley-chat/parley/schema","Test":"TestParts/bad"}
{"Action":"pass","Package":"github.com/parley-chat/parley/schema","Test":"TestParts"}
{"Action":"pass","Package":"github.com/parley-chat/parley/internal/domain/labels","Test":"FuzzName"}
{"Action":"output","Package":"github.com/parley-chat/parley/schema","Output":"ok\n"}
{"Action":"fail","Package":"github.com/parley-chat/parley/schema"}
`

func TestCheck_EachRow_ProvedOrRefused(t *testing.T) {
	t.Parallel()
	ended, err := read(strings.NewReader(results))
	require.NoError(t, err)
	const missing = "does not exist or did not run"
	for row, want := range map[string][]string{
		"| A rule | `schema.TestGood` |":                                      nil,
		"| A rule | `schema.TestGood`<br>`internal/domain/labels.FuzzName` |": nil,
		"| A rule | `schema.TestParts/good` |":                                nil,
		"| A rule | `schema.TestNone` |":                                      {"schema.TestNone " + missing},
		"| A rule | `schema.FuzzName` |":                                      {"schema.FuzzName " + missing},
		"| A rule | `schema.TestParts/none` |":                                {"schema.TestParts/none " + missing},
		"| A rule | `schema.TestStarted` |":                                   {"schema.TestStarted " + missing},
		"| A rule | `schema.TestSkipped` |":                                   {"schema.TestSkipped was skipped, or a part of it"},
		"| A rule | `schema.TestParts` |":                                     {"schema.TestParts was skipped, or a part of it"},
		"| A rule | `schema.TestFailed` |":                                    {"schema.TestFailed failed"},
		"| A rule | `schema.TestGood`<br>`schema.TestNone` |":                 {"schema.TestNone " + missing},
		"| A rule | |":               {`"" is no proof: name a test as ` + "`internal/domain/labels.TestService_List`"},
		"| A rule | by reading |":    {`"by reading" is no proof: name a test as ` + "`internal/domain/labels.TestService_List`"},
		"| A rule | `schema.Good` |": {"\"`schema.Good`\" is no proof: name a test as `internal/domain/labels.TestService_List`"},
		"| | `schema.TestGood` |":    {"a row has a rule and a proof"},
		"| A rule |":                 {"a row has a rule and a proof"},
	} {
		rows, problems := check("Words.\n\n| Rule | Proof |\n|---|---|\n| First | `schema.TestGood` |\n"+row+"\n\nWords.", ended)
		require.Equal(t, 2, rows, row)
		for i := range want {
			want[i] = "line 6: " + want[i]
		}
		require.Equal(t, want, problems, row)
	}
}

func TestRun_FilesMissingOrEmpty_Fail(t *testing.T) {
	t.Parallel()
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	table := "| Rule | Proof |\n|---|---|\n| A rule | `schema.TestGood` |\n"
	good, bad := write("results", results), write("broken", "{")
	var said strings.Builder
	require.NoError(t, run(write("good.md", table), good, &said))
	require.Contains(t, said.String(), "good.md: each of 1 rows is proved by tests that passed")
	require.ErrorContains(t, run(write("good.md", table), "nowhere.json", io.Discard), "nowhere.json does not exist: `make race` writes it")
	require.ErrorContains(t, run(write("good.md", table), bad, io.Discard), "unexpected EOF")
	require.ErrorContains(t, run(write("good.md", table), write("none", ""), io.Discard), "schema.TestGood does not exist or did not run")
	require.ErrorContains(t, run(write("empty.md", "| Rule | Proof |\n|---|---|\n"), good, io.Discard), "there are no rows")
	require.ErrorContains(t, run("nowhere.md", good, io.Discard), "nowhere.md")
}
