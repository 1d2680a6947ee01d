package openapi

import "encoding/json"

// Example is an example of a body.
type Example struct {
	// Name is empty for the only example of a body.
	Name string
	// Value is the body as compact JSON.
	Value []byte
}

// BodyExamples returns the examples of the request body of a media type.
func (o *Operation) BodyExamples(media string) ([]Example, error) {
	body := o.contract.resolve(o.place.at("requestBody"))
	return o.contract.examples(body.at("content", media))
}

// ResponseExamples returns the examples of the JSON answer with a status.
func (o *Operation) ResponseExamples(status int) ([]Example, error) {
	response, _ := o.response(status)
	return o.contract.examples(response.at("content", mediaJSON))
}

// Codes returns the error codes that the operation may answer with a status. The contract shows an example of each.
func (o *Operation) Codes(status int) (codes []string, err error) {
	shown, err := o.ResponseExamples(status)
	if err != nil {
		return nil, err
	}
	for _, one := range shown {
		var body struct {
			Error struct {
				Code string `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal(one.Value, &body); err != nil {
			return nil, err
		}
		codes = append(codes, body.Error.Code)
	}
	return codes, nil
}

// examples returns those of a media type.
func (c *Contract) examples(content place) (found []Example, err error) {
	if only := content.at("example"); only.exists() {
		value, err := only.json()
		return []Example{{Value: value}}, err
	}
	for _, named := range content.at("examples").members() {
		value, err := c.resolve(named).at("value").json()
		if err != nil {
			return nil, err
		}
		found = append(found, Example{Name: named.name, Value: value})
	}
	return found, nil
}
