package simulator

// Words of the wire that come up in many places.
const (
	fieldProduct   = "messaging_product"
	fieldContacts  = "contacts"
	fieldDisplay   = "display_phone_number"
	fieldEntity    = "entity_type"
	fieldTimestamp = "timestamp"
	fieldMessages  = "messages"
	fieldMetadata  = "metadata"

	statusApproved  = "APPROVED"
	statusConnected = "CONNECTED"

	categoryMarketing      = "MARKETING"
	categoryAuthentication = "AUTHENTICATION"

	kindDocument = "document"
	kindReaction = "reaction"
	kindTemplate = "template"
)
