package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// defaultRatio is the ratio of traces that are sampled when the environment sets none.
const defaultRatio = 0.1

// StartTracing exports spans over OTLP/HTTP, configured by the environment variables of
// OpenTelemetry. Without an endpoint there it does nothing. The exporter itself reads headers,
// timeout, compression and certificates from the environment.
func StartTracing(
	ctx context.Context, getenv func(string) string, service, version string,
) (trace.TracerProvider, func(context.Context) error, error) {
	endpoint, err := tracesEndpoint(getenv)
	if err != nil {
		return nil, nil, err
	}
	if endpoint == "" {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	sampler, err := sampler(getenv)
	if err != nil {
		return nil, nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, nil, fmt.Errorf("start trace exporter: %w", err)
	}
	if name := getenv("OTEL_SERVICE_NAME"); name != "" {
		service = name
	}
	about, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version)))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("trace resource: %w", err), exporter.Shutdown(ctx))
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithSampler(sampler))
	return provider, provider.Shutdown, nil
}

// tracesEndpoint returns the URL of the endpoint; empty when traces are not exported.
func tracesEndpoint(getenv func(string) string) (string, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return "", nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return "", nil
	default:
		return "", fmt.Errorf("OTEL_TRACES_EXPORTER %q: must be otlp or none", exporter)
	}
	endpoint := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if endpoint == "" {
		return "", nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" && protocol != "http/protobuf" {
			return "", fmt.Errorf("%s %q: must be http/protobuf", name, protocol)
		}
	}
	parsed, err := url.Parse(endpoint)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", errors.New("OTEL_EXPORTER_OTLP_ENDPOINT or _TRACES_ENDPOINT: must be an http or https URL")
	}
	return endpoint, nil
}

func sampler(getenv func(string) string) (sdktrace.Sampler, error) {
	ratio := defaultRatio
	if arg := getenv("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
		parsed, err := strconv.ParseFloat(arg, 64)
		if err != nil || parsed < 0 || parsed > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q: must be a number from 0 to 1", arg)
		}
		ratio = parsed
	}
	switch name := getenv("OTEL_TRACES_SAMPLER"); name {
	case "", "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	case "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	default:
		return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %q: not one of OpenTelemetry's six", name)
	}
}

// Propagator carries the trace in W3C's traceparent and tracestate. It does not carry baggage,
// because our callers and the endpoints that we call are not trusted.
func Propagator() propagation.TextMapPropagator { return propagation.TraceContext{} }

// Extract returns a context that continues the trace of a request.
func Extract(ctx context.Context, header http.Header) context.Context {
	return Propagator().Extract(ctx, propagation.HeaderCarrier(header))
}

// Inject writes the trace of ctx into the headers of a request.
func Inject(ctx context.Context, header http.Header) {
	Propagator().Inject(ctx, propagation.HeaderCarrier(header))
}
