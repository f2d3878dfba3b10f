package plan

import "fmt"

// A refusal is why a statement is passed to the server whole.
type refusal string

func (r refusal) Error() string { return string(r) }

// refuse makes the statement whole by a rule. args are what of the statement the reason names.
func refuse(r rule, args ...any) error { return refusal(fmt.Sprintf(rules[r].reason, args...)) }

// A rule makes statements whole that pieces may answer in another way, or no faster.
type rule int

// The rules.
const (
	fromEngine rule = iota
	fromServer
	zeroByte
	parameter
	placeUncertain
	nameUncertain
	otherColumns
	noTable
	noFrom
	notRead
	noPartitions
	noKey
	view
	fleetingColumn
	onlySubquery
	partitionsUncertain
	naturalByRange
	readsAgain
	unorderedLimit
	limitBelow
	limitedCall
	limitNoNumber
	offsetAlone
	limitZero
	offsetOfOne
	sortsAll
	selectOption
	unknownFunction
	qualifiedFunction
	clockText
	clockColumn
	systemColumn
	rowType
	databaseOfColumn
	caseOfCTE
	hiddenColumn
	aliasWithin
	caseOfOperands
	caseOfLetters
	earlyCTE
	nameOfItem
	nameOfSeveral
	itemUnnamed
	outerAggregate
	windowsOfRows
	windowUncertain
	windowOfWindow
	lastDigits
	noParts
	nothingComputed
	keylessGroups
	havingAlone
	starOfGroups
	subqueryOfGroups
	subqueryInAggregate
	groupsBySubquery
	groupsByRow
	groupsByAggregate
	groupsByStar
	distinctStar
	distinctConstants
	constantKey
	positionAfterStar
	subtotalsMissing
	groupingOfOther
	looseColumn
	keyAmbiguous
	keyDigits
	rowDigits
	sortsByQuotient
	windowQuotient
	digitsWithin
	shortType
	equalValues
	distinctGroups
	equalGroups
	windowOfGroups
	windowOrder
	typeUncertain
	rollupDistinct
	rollupRepeats
	rollupName
	rollupTwice
	rollupOfDistinct
	rollupOperand
	constantInSets
	lostOffset
	swappedNames
	countsAlone
	sortsByAlias
	sortsByWindow
	computedKey
	mayBeJSON
	makesJSONOf
	numberAsTime
	dateAsTime
	namedCollation
	severalCollations
	notStored
	sortNotStored
	severalStars
	sameColumns
	subqueryInOrder
	rowsComputed
	setAround
	windowsAround
	severalGroups
	aggregateAround
	subtotalsAround
	setWithin
	branchCTEs
	branchUnknown
	branchConstants
	branchNames
	unionSubquery
	unionLimit
	unionCollations
	branchTypes
	branchQuotients
	branchSizes
	branchCollation
	branchRows
)

// rules are the reasons that Plan.Whole gives, in the order of the table in docs/querying.md.
var rules = [...]struct {
	// trait is the field of engine.Semantics with which alone the rule makes statements whole; ""
	// is on all servers.
	trait string
	// reason has a verb of fmt for each part of the statement that it names.
	reason string
}{
	fromEngine:          {reason: "%s"},
	fromServer:          {reason: "%s: %s"},
	zeroByte:            {reason: "it has a zero byte"},
	parameter:           {reason: "it has a parameter"},
	placeUncertain:      {reason: "the place of %s in it is not certain"},
	nameUncertain:       {reason: "the name of %s is not written in a simple way"},
	otherColumns:        {reason: "the server describes %d columns in place of %d"},
	noTable:             {reason: "it reads no table"},
	noFrom:              {reason: "it has no FROM"},
	notRead:             {reason: "the server answers it without reading a table"},
	noPartitions:        {reason: "no table that it reads has partitions"},
	noKey:               {reason: "no table that it reads has partitions or a primary key"},
	view:                {reason: "%s is a view, or no table that the account may read"},
	fleetingColumn:      {reason: "the generated column %s of %s may have another value in each session"},
	onlySubquery:        {reason: "only a subquery reads %s"},
	partitionsUncertain: {reason: "which of the partitions that it names are read is not certain"},
	naturalByRange:      {reason: "it has a NATURAL join, of a table that is cut by ranges"},
	readsAgain:          {reason: "each piece would read %s again, about %d rows"},
	unorderedLimit:      {reason: "it has LIMIT without ORDER BY: which rows it returns is up to the server"},
	limitBelow:          {reason: "which rows its LIMIT returns is up to the server"},
	limitedCall:         {reason: "%s has LIMIT"},
	limitNoNumber:       {reason: "the limit is not a number"},
	offsetAlone:         {reason: "it has OFFSET without LIMIT"},
	limitZero:           {reason: "its limit is 0"},
	offsetOfOne:         {reason: "it has OFFSET of a single row"},
	sortsAll:            {reason: "it sorts all rows, which pieces don't make faster"},
	selectOption:        {reason: "SELECT has the option %s"},
	unknownFunction:     {reason: "%s is not known to return the same in every piece"},
	qualifiedFunction:   {reason: "%s has a schema before its name, and may be a function of a user"},
	clockText:           {trait: "ClockTexts", reason: "%s may be the current time, which differs between sessions"},
	clockColumn:         {trait: "ClockTexts", reason: "%s may read the current time from a text such as 'now'"},
	systemColumn:        {trait: "SystemColumns", reason: "%s is not the same in a partition as in the table"},
	rowType:             {trait: "TableRows", reason: "%s has rows, whose type is another in a partition"},
	databaseOfColumn:    {reason: "the column %s is written with the name of its database"},
	caseOfCTE:           {reason: "the name %s differs in case from that of a CTE"},
	hiddenColumn:        {trait: "HiddenColumns", reason: "the name %s may stand for a column that no list has"},
	aliasWithin:         {reason: "the alias %s is used within an expression"},
	caseOfOperands:      {trait: "FoldsOperands", reason: "the names %s and %s of what it reads differ in case alone"},
	caseOfLetters:       {trait: "FoldsColumns", reason: "whether %s and %s are the same name depends on the server"},
	earlyCTE:            {trait: "EarlyCTEs", reason: "the CTE %s may come before a table that is so called"},
	nameOfItem:          {trait: "ImplicitNames", reason: "the name %s in ORDER BY may stand for another element of the select list"},
	nameOfSeveral:       {reason: "the name %s stands for several expressions"},
	itemUnnamed:         {trait: "ImplicitNames", reason: "the name of an element of its select list is not certain"},
	outerAggregate:      {reason: "%s in a subquery may be an aggregate of the query around it"},
	windowsOfRows:       {reason: "it has window functions over rows"},
	windowUncertain:     {reason: "which window is called %s is not certain"},
	windowOfWindow:      {reason: "%s has a window that is made of another"},
	lastDigits:          {reason: "the last digits of %s depend on the order of the additions"},
	noParts:             {reason: "%s can't be computed from parts with certainty"},
	nothingComputed:     {reason: "it has nothing to compute"},
	keylessGroups:       {reason: "it has groups without a key and without an aggregate"},
	havingAlone:         {reason: "it has HAVING without groups"},
	starOfGroups:        {reason: "it has a star over groups"},
	subqueryOfGroups:    {reason: "it has a subquery over groups"},
	subqueryInAggregate: {reason: "%s has a subquery"},
	groupsBySubquery:    {reason: "it groups by a subquery"},
	groupsByRow:         {reason: "it groups by a row"},
	groupsByAggregate:   {reason: "it groups by an aggregate or a window function"},
	groupsByStar:        {reason: "GROUP BY has the position of a star"},
	distinctStar:        {reason: "it has DISTINCT of a star"},
	distinctConstants:   {reason: "it has DISTINCT of constants"},
	constantKey:         {reason: "%s has a constant"},
	positionAfterStar:   {reason: "%s has a position after a star"},
	subtotalsMissing:    {reason: "%s has no subtotals"},
	groupingOfOther:     {reason: "%s has an argument that isn't a key"},
	looseColumn:         {reason: "%s is neither grouped by nor aggregated"},
	keyAmbiguous:        {reason: "it groups by %s, whose text may stand for several values"},
	keyDigits:           {trait: "HiddenDigits", reason: "it groups by %s, a decimal number that may have more digits than its text"},
	rowDigits:           {trait: "HiddenDigits", reason: "%s is a decimal number that may have other digits than its type"},
	sortsByQuotient:     {trait: "HiddenDigits", reason: "it sorts by a quotient, whose digits beyond its type would be cut"},
	windowQuotient:      {trait: "OperandForm", reason: "%s has a quotient, whose digits beyond its type would be cut"},
	digitsWithin:        {reason: "%s within an expression has more digits than can be computed from parts, or another sign"},
	shortType:           {trait: "ShortTypes", reason: "%s may have more digits than its type, to which the server may cut it"},
	equalValues:         {reason: "which of the equal values of %s it returns is up to the server"},
	distinctGroups:      {reason: "it has DISTINCT of groups, and which of the equal texts of %s it returns is up to the server"},
	equalGroups:         {reason: "%s depends on the order of groups that are equal in its order"},
	windowOfGroups:      {reason: "%s is not known to be certain over groups"},
	windowOrder:         {reason: "there are windows over groups with %s, whose type the server orders in a way of its own"},
	typeUncertain:       {reason: "the type of %s depends on how the server computes it"},
	rollupDistinct:      {trait: "KeepsKeys", reason: "it has WITH ROLLUP and DISTINCT"},
	rollupRepeats:       {trait: "KeepsKeys", reason: "it has WITH ROLLUP, and repeats %s, which it groups by: an alias, or a position, would be certain"},
	rollupName:          {trait: "KeepsKeys", reason: "it has WITH ROLLUP, and another element of its select list has the name of %s"},
	rollupTwice:         {trait: "KeepsKeys", reason: "it has WITH ROLLUP and selects %s twice"},
	rollupOfDistinct:    {trait: "KeepsKeys", reason: "it has WITH ROLLUP and %s"},
	rollupOperand:       {trait: "KeepsOperands", reason: "it has WITH ROLLUP and an expression of %s, in which the server may not replace it"},
	constantInSets:      {reason: "%s among its grouping sets is a constant, by which the server may not sort"},
	lostOffset:          {trait: "LosesOffset", reason: "it has DISTINCT of expressions, and OFFSET"},
	swappedNames:        {trait: "SwapsNames", reason: "it selects %s twice, of which one may get the name of the other"},
	countsAlone:         {trait: "CountsAll", reason: "it computes with counts alone, which some versions of the server count in another way"},
	sortsByAlias:        {trait: "MissortsAliases", reason: "it sorts by %s, which has an alias in it"},
	sortsByWindow:       {trait: "MissortsAliases", reason: "it sorts by an expression of a window function's alias"},
	computedKey:         {trait: "OperandForm", reason: "%s is computed from a key that is an expression, whose type may not tell all of its values"},
	mayBeJSON:           {trait: "OperandForm", reason: "an expression of %s may take it for JSON or for a text"},
	makesJSONOf:         {trait: "OperandForm", reason: "%s tells texts, JSON and truth values apart, which columns of groups don't"},
	numberAsTime:        {trait: "NumbersAsTimes", reason: "%s takes a number for a time, which depends on whether it is a column"},
	dateAsTime:          {trait: "MistakesDates", reason: "%s takes a date for a time of day in some plans of the server"},
	namedCollation:      {trait: "OperandForm", reason: "%s has a text whose collation is named in the query"},
	severalCollations:   {trait: "OperandForm", reason: "%s combines texts of several collations"},
	notStored:           {reason: "the column %s can't be stored in between with certainty"},
	sortNotStored:       {reason: "it sorts by what can't be stored in between with certainty"},
	severalStars:        {reason: "it has several stars"},
	sameColumns:         {reason: "two columns of its result are called %s"},
	subqueryInOrder:     {reason: "HAVING or ORDER BY has a subquery"},
	rowsComputed:        {reason: "its rows are computed further"},
	setAround:           {reason: "it has a set operation around the query of %s"},
	windowsAround:       {reason: "it has window functions over the rows of a derived table or CTE"},
	severalGroups:       {reason: "it has groups in several CTEs"},
	aggregateAround:     {reason: "%s is not known to be certain over the rows of a derived table or CTE"},
	subtotalsAround:     {reason: "it has subtotals over the rows of a derived table or CTE"},
	setWithin:           {reason: "it has a set operation within another"},
	branchCTEs:          {reason: "a branch has CTEs of its own"},
	branchUnknown:       {reason: "it isn't known what it reads"},
	branchConstants:     {reason: "a branch of its set operation has constants alone"},
	branchNames:         {reason: "two columns of a branch of its set operation are called %s"},
	unionSubquery:       {reason: "it sorts the rows of a set operation by a subquery"},
	unionLimit:          {reason: "it has a limit, and sorts the rows of a set operation by an expression"},
	unionCollations:     {reason: "a set operation needs the collations of its columns, which this server's temporary tables don't have"},
	branchTypes:         {reason: "the branches have numbers of different types in the column %s"},
	branchQuotients:     {trait: "HiddenDigits", reason: "the branches have quotients, and numbers with more digits, in the column %s"},
	branchSizes:         {trait: "DescribesAnyBranch", reason: "the branches have values of different sizes in the column %s"},
	branchCollation:     {trait: "NamedCollations", reason: "a branch of its set operation has the collation of %s"},
	branchRows:          {reason: "branch %d of its set operation returns rows, which would have to be stored in between"},
}
