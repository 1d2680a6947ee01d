package telemetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

type environment map[string]string

func (e environment) getenv(name string) string { return e[name] }

func TestStartTracing_NoEndpoint_Noop(t *testing.T) {
	t.Parallel()
	for _, env := range []environment{
		{},
		{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
		{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
	} {
		provider, shutdown, err := telemetry.StartTracing(t.Context(), env.getenv, "parley", "1")
		require.NoError(t, err)
		assert.IsType(t, noop.TracerProvider{}, provider)
		_, span := provider.Tracer("test").Start(t.Context(), "work")
		assert.False(t, span.IsRecording())
		span.End()
		require.NoError(t, shutdown(t.Context()))
	}
}

func TestStartTracing_Endpoint_SpansExported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, variable, suffix, path string
	}{
		{"base endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT", "/", "/v1/traces"},
		{"base endpoint with a path", "OTEL_EXPORTER_OTLP_ENDPOINT", "/collect", "/collect/v1/traces"},
		{"traces endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/mine", "/mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bodies := make(chan string, 1)
			collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				assert.Equal(t, c.path, r.URL.Path)
				bodies <- string(body)
			}))
			t.Cleanup(collector.Close)
			env := environment{
				c.variable:            collector.URL + c.suffix,
				"OTEL_TRACES_SAMPLER": "always_on",
				"OTEL_SERVICE_NAME":   "parley-test",
			}
			provider, shutdown, err := telemetry.StartTracing(t.Context(), env.getenv, "parley", "1.2.3")
			require.NoError(t, err)
			_, span := provider.Tracer("test").Start(t.Context(), "the work")
			span.End()
			require.NoError(t, shutdown(t.Context()))
			body := <-bodies
			for _, part := range []string{"the work", "parley-test", "1.2.3"} {
				assert.Contains(t, body, part)
			}
		})
	}
}

func TestStartTracing_Ratio_Sampled(t *testing.T) {
	t.Parallel()
	sampled := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	for _, c := range []struct {
		sampler, arg            string
		alone, beneathAnSampled bool
	}{
		{"", "0", false, true},
		{"", "1", true, true},
		{"parentbased_traceidratio", "0", false, true},
		{"parentbased_always_on", "", true, true},
		{"parentbased_always_off", "", false, true},
		{"traceidratio", "0", false, false},
		{"always_on", "", true, true},
		{"always_off", "", false, false},
	} {
		env := environment{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
			"OTEL_TRACES_SAMPLER":         c.sampler,
			"OTEL_TRACES_SAMPLER_ARG":     c.arg,
		}
		provider, shutdown, err := telemetry.StartTracing(t.Context(), env.getenv, "parley", "1")
		require.NoError(t, err)
		_, alone := provider.Tracer("test").Start(t.Context(), "work")
		_, beneath := provider.Tracer("test").Start(trace.ContextWithRemoteSpanContext(t.Context(), sampled), "work")
		assert.Equal(t, c.alone, alone.SpanContext().IsSampled(), c)
		assert.Equal(t, c.beneathAnSampled, beneath.SpanContext().IsSampled(), c)
		require.NoError(t, shutdown(t.Context())) // no span ended, so nothing is sent
	}
}

func TestStartTracing_BadSettings_Refused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER":               "zipkin",
		"OTEL_EXPORTER_OTLP_PROTOCOL":        "grpc",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
		"OTEL_TRACES_SAMPLER":                "sometimes",
		"OTEL_TRACES_SAMPLER_ARG":            "1.5",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "collector:4318",
	} {
		env := environment{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
		env[name] = value
		_, _, err := telemetry.StartTracing(t.Context(), env.getenv, "parley", "1")
		require.ErrorContains(t, err, name[len(name)-6:])
	}
}

func TestPropagation_TraceContinues_BaggageDropped(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	in := http.Header{"Traceparent": {parent}, "Baggage": {"who=stranger"}}
	ctx := telemetry.Extract(t.Context(), in)
	assert.True(t, trace.SpanContextFromContext(ctx).IsRemote())
	out := http.Header{}
	telemetry.Inject(ctx, out)
	assert.Equal(t, http.Header{"Traceparent": {parent}}, out)
}
