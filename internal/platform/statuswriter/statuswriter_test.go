package statuswriter_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/statuswriter"
)

func TestWriter_Status_KeptAndPassedOn(t *testing.T) {
	t.Parallel()
	recorder := httptest.NewRecorder()
	writer := statuswriter.New(recorder)
	require.Equal(t, http.StatusOK, writer.Status, "a handler may write a body only")
	writer.WriteHeader(http.StatusTeapot)
	require.Equal(t, []int{http.StatusTeapot, http.StatusTeapot}, []int{writer.Status, recorder.Code})
	require.NoError(t, http.NewResponseController(writer).Flush(), "the recorder can flush")
}
