package wire

// Names of the API that several packages use.
const (
	FieldProduct   = "messaging_product"
	FieldContacts  = "contacts"
	FieldDisplay   = "display_phone_number"
	FieldEntity    = "entity_type"
	FieldTimestamp = "timestamp"
	FieldMessages  = "messages"
	FieldMetadata  = "metadata"

	StatusApproved  = "APPROVED"
	StatusConnected = "CONNECTED"

	CategoryMarketing      = "MARKETING"
	CategoryAuthentication = "AUTHENTICATION"

	KindDocument = "document"
	KindReaction = "reaction"
	KindTemplate = "template"
)
