package telemetry_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/parley-chat/parley/internal/platform/telemetry"
)

type settings struct {
	MasterKey telemetry.Secret
	Rotation  []telemetry.Secret
	ByName    map[string]telemetry.Secret
	Pointer   *telemetry.Secret
}

func TestSecret_Printed_Hidden(t *testing.T) {
	t.Parallel()
	secret := telemetry.Secret(canary)
	config := settings{secret, []telemetry.Secret{secret}, map[string]telemetry.Secret{"a": secret}, &secret}

	var printed []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%U", "%10.3s"} {
		printed = append(printed, fmt.Sprintf(verb, secret), fmt.Sprintf(verb, &secret), fmt.Sprintf(verb, config), fmt.Sprintf(verb, &config))
	}
	printed = append(printed, secret.String(), secret.GoString(), fmt.Sprint(config), fmt.Errorf("with %v", secret).Error())
	for _, value := range []any{secret, config, &config} {
		encoded, err := json.Marshal(value)
		require.NoError(t, err)
		printed = append(printed, string(encoded))
	}
	for _, format := range []string{"json", "text"} {
		log, out := logger(t, format)
		log.InfoContext(t.Context(), "m", "a", secret, "c", config, "d", &config, "e", []telemetry.Secret{secret})
		printed = append(printed, out.String())
	}
	for _, text := range printed {
		assert.NotContains(t, text, canary)
		assert.NotContains(t, text, fmt.Sprintf("%x", canary))
	}
	assert.Equal(t, "[hidden]", fmt.Sprint(telemetry.Secret("")))
	assert.Equal(t, canary, secret.Reveal())
}
