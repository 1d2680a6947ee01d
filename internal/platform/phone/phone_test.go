package phone_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/parley-chat/parley/internal/platform/phone"
)

func TestParse_Forms_OneNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"+351910000001": "+351910000001", "351910000001": "+351910000001", "1234567": "+1234567", "+123456789012345": "+123456789012345",
	} {
		number, ok := phone.Parse(text)
		require.True(t, ok, text)
		require.Equal(t, want, number)
	}
	for _, text := range []string{
		"", "+", "123456", "1234567890123456", "0351910000001", "+0351910000001", "++351910000001", "+351 910 000 001", "351-910-000-001",
		"٣٥١٩١٠٠٠٠٠٠١", "３５１９１００００００１", "+35191000000a", "00351910000001", "+351910000001\n",
	} {
		_, ok := phone.Parse(text)
		require.False(t, ok, "%q", text)
	}
}

func TestPrefix_WithAndWithoutPlus_Parsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"+": "+", "+3": "+3", "3": "+3", "35191": "+35191"} {
		prefix, ok := phone.Prefix(text)
		require.True(t, ok, text)
		require.Equal(t, want, prefix)
	}
	for _, text := range []string{"", "a", "3a", "+3 5", "1234567890123456"} {
		_, ok := phone.Prefix(text)
		require.False(t, ok, "%q", text)
	}
}

func TestKey_NationalForms_OneKey(t *testing.T) {
	t.Parallel()
	for _, forms := range [][]string{
		{"+5531987654321", "+553187654321"},
		{"+5511999998888", "+551199998888"},
		{"+5215512345678", "+525512345678"},
		{"+5491123456789", "+541123456789"},
	} {
		require.Equal(t, phone.Key(forms[0]), phone.Key(forms[1]), "%v", forms)
	}
	for _, apart := range [][]string{
		{"+553134567890", "+5531934567890"}, // a landline and a mobile number
		{"+351910000001", "+351910000002"}, {"+5255123456789", "+525512345678"}, {"+15215512345678", "+525512345678"},
	} {
		require.NotEqual(t, phone.Key(apart[0]), phone.Key(apart[1]), "%v", apart)
	}
}

// A key is a number, and its own key. In most countries it is the number itself.
func TestKey_AnyNumber_KeyIsANumberAndItsOwnKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		number := "+" + rapid.StringMatching(`(55|52|521|54|549|1|351)?[1-9][0-9]{6,11}`).Draw(r, "number")
		if len(number) > 16 {
			return
		}
		key := phone.Key(number)
		require.Equal(r, key, phone.Key("+"+key))
		require.Equal(r, key, phone.Key(strings.TrimPrefix(number, "+")))
		if number[1] != '5' {
			require.Equal(r, number, "+"+key)
		}
	})
}
