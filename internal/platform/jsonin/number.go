package jsonin

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSignificantDigits = 17
	maxExponent          = 308
	// maxNumberBytes is enough for every double without an exponent. Longer numbers only serve to
	// slow down a parser.
	maxNumberBytes = 400

	ruleDigits = "must be a number of at most 17 significant digits; send longer ones as a string"
	ruleRange  = "must be a number that fits a double, with an exponent of -308 to 308"
)

// numberRule returns the rule that a number of valid syntax breaks, or "".
func numberRule(text string) string {
	if len(text) <= 15 && !strings.ContainsAny(text, "eE") {
		return ""
	}
	if len(text) > maxNumberBytes {
		return ruleDigits
	}
	mantissa, exponent := text, ""
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		mantissa, exponent = text[:at], text[at+1:]
	}
	digits := significant(mantissa)
	if digits > maxSignificantDigits {
		return ruleDigits
	}
	if !exponentFits(exponent) {
		return ruleRange
	}
	double, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(double, 0) || (double == 0 && digits > 0) {
		return ruleRange
	}
	return ""
}

// significant counts the digits between the first and the last that are not zero.
func significant(mantissa string) int {
	count, zeros := 0, 0
	for _, char := range []byte(mantissa) {
		switch char {
		case '-', '.':
		case '0':
			if count > 0 {
				zeros++
			}
		default:
			count += zeros + 1
			zeros = 0
		}
	}
	return count
}

func exponentFits(exponent string) bool {
	digits := strings.TrimLeft(strings.TrimLeft(exponent, "+-"), "0")
	if len(digits) > 3 {
		return false
	}
	value, _ := strconv.Atoi(digits)
	return value <= maxExponent
}

// interval describes the accepted numbers of a schema; either end may be open.
func interval(schema *jsonschema.Schema) string {
	from, to := schema.Minimum, schema.Maximum
	switch {
	case schema.ExclusiveMinimum != nil:
		return "must be greater than " + rational(schema.ExclusiveMinimum)
	case schema.ExclusiveMaximum != nil:
		return "must be less than " + rational(schema.ExclusiveMaximum)
	case from != nil && to != nil:
		return "must be " + rational(from) + " to " + rational(to)
	case from != nil:
		return "must be at least " + rational(from)
	case to != nil:
		return "must be at most " + rational(to)
	}
	return "is outside the accepted range"
}

func rational(number *big.Rat) string {
	if number.IsInt() {
		return number.Num().String()
	}
	double, _ := number.Float64()
	return strconv.FormatFloat(double, 'g', -1, 64)
}
