package media

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDisposition_HostileNames_ShortAndPlain(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                       `attachment`,
		"bill.pdf":               `attachment; filename=bill.pdf`,
		"../../../etc/passwd":    `attachment; filename=passwd`,
		`..\..\x.pdf`:            `attachment; filename=x.pdf`,
		"a\r\nSet-Cookie: b.pdf": `attachment; filename="aSet-Cookie: b.pdf"`,
		"fdp.\u202eexe":          `attachment; filename=fdp.exe`,
		"/":                      `attachment`,
	} {
		require.Equal(t, want, Disposition(name), "%q", name)
	}
	long := Disposition(strings.Repeat("😀", 30_000) + ".pdf")
	require.Less(t, len(long), 4_000)
	require.True(t, strings.HasSuffix(long, ".pdf"))
	require.Equal(t, "application/octet-stream", contentType("image/"+strings.Repeat("A", 3_000)))
}
