package data

import (
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/base/rng"
)

// The genres of the world, the most common first.
var genreNames = [...]string{
	"Drama", "Comedy", "Thriller", "Romance", "Action", "Crime",
	"Science Fiction", "Adventure", "Horror", "Fantasy", "Documentary", "Western",
}

func genrePair(g, h int) []string {
	if g == h {
		return []string{genreNames[g]}
	}
	return []string{genreNames[g], genreNames[h]}
}

// genreNouns are the nouns of each genre.
var genreNouns = [len(genreNames)][]string{
	words("Harbour Orchard Inheritance Silence Verdict Summer House Daughter Season River Piano Winter Garden " +
		"Confession Tide"),
	words("Wedding Neighbour Landlord Holiday Reunion Goose Parade Nephew Honeymoon Bicycle Caravan Recipe Choir " +
		"Umbrella Vicar"),
	words("Witness Silence Signal Passenger Alibi Corridor Informant Hostage Cipher Deadline Stranger Ledger " +
		"Pursuit Mirror Lie"),
	words("Letter Waltz Promise Lighthouse Vineyard Kiss Balcony Spring Rose Ballroom Postcard Sonata Ferry Goodbye " +
		"Heart"),
	words("Convoy Strike Vanguard Bullet Fortress Rampart Siege Thunder Avalanche Mercenary Crossfire Ambush Hammer " +
		"Bridge Gauntlet"),
	words("Heist Detective Docks Syndicate Warrant Vault Gambler Ransom Snitch Getaway Precinct Diamond Pawnshop " +
		"Judge Accomplice"),
	words("Orbit Colony Signal Android Horizon Eclipse Satellite Comet Machine Gravity Station Transmission Exodus " +
		"Reactor Void"),
	words("Expedition Compass Island Map Voyage Summit Treasure Lagoon Monsoon Caravel Canyon Current Relic " +
		"Crossing Storm"),
	words("Cellar Hollow Scarecrow Asylum Attic Chapel Whisper Marsh Doll Feast Crypt Lullaby Fog Shadow Well"),
	words("Dragon Crown Sorcerer Forest Raven Lantern Throne Wanderer Sword Oracle Kingdom Moon Giant Mirror Spell"),
	words("Glacier Archive Factory Border Orchestra Reef Harvest Wall Election Library Stadium Desert Machine " +
		"Market River"),
	words("Ridge Sheriff Stagecoach Rider Canyon Gunsmith Saddle Frontier Prairie Marshal Outlaw Homestead " +
		"Rattlesnake Ranch Spur"),
}

// genreForms are patterns that only one genre uses.
var genreForms = [len(genreNames)][]string{
	{"The Trial of %p", "Everything %p Left Behind"},
	{"My Cousin %p", "Who Invited the %n?", "Married to the %n"},
	{"Nobody Knows %p", "Without a %n"},
	{"Waiting for %p", "%p and the %n", "Always, %p"},
	{"Code Name: %n", "%c Hours to %l"},
	{"The %l Job", "%p Goes Down"},
	{"Sector %c", "The %n Paradox", "%n Prime"},
	{"The Lost %n of %l", "%p and the %n of %o"},
	{"Don't Wake the %n", "It Came from %l", "The %n Below"},
	{"The %n of %o", "%p and the %a %n"},
	{"Inside the %n", "%l: A Portrait", "The %n: A History", "Voices of %l"},
	{"Ride to %l", "The %n of %l County", "%c Graves for %p"},
}

// forms are patterns: %a adjective, %n noun of the genre, %i the same with "A" or "An", %o material, %w trade, %h
// relative, %k legacy, %l place, %p person, %c number, %t time.
var forms = []string{
	"The %a %n", "The %a %n", "The %a %n", "%a %n", "The %n", "%n of %o", "The %n of %l",
	"The %w's %k", "The %w's %n", "The Last %n", "The %n and the %w", "%i for %p", "%i in %l",
	"%t in %l", "The Night of the %n", "Letters from %l", "Return to %l", "The Road to %l", "Beyond the %n",
	"Before the %n",
	"The %w of %l", "%p", "%p and %p", "No Word from %p", "The Education of %p", "%c %ws", "What the %w Knew",
	"My %h's %n",
}

var fillers = map[byte][]string{
	'a': words("Quiet Crooked Golden Broken Distant Silver Hidden Frozen Restless Hollow Scarlet Second Forgotten " +
		"Burning Paper Velvet Iron Painted Empty Borrowed Savage Gentle Northern Drowned Wandering Blue Secret " +
		"Bitter " +
		"Glass Unfinished Narrow Long Midnight Patient Reluctant Pale Electric Stolen Perfect Invisible"),
	'o': words("Glass Ashes Salt Stars Winter Smoke Gold Silence Dust Amber Thorns Ivory Rain Iron Shadows Snow " +
		"Sand Tomorrow"),
	'w': words("Cartographer Clockmaker Beekeeper Gardener Surgeon Sentinel Translator Violinist Locksmith Widow " +
		"Navigator Tailor Painter Astronomer Baker Miller Juggler Boxer Senator Falconer Photographer Schoolteacher " +
		"Typist Stranger"),
	'h': words("Father Mother Brother Sister Uncle Aunt Grandmother Husband Wife"),
	'k': words("Daughter Son Wife Brother Sister Apprentice Ghost Promise Debt Secret Mistake Dream"),
	'l': words("Lisbon Tangier Ostrava Montreal Valparaiso Trieste Havana Kyoto Bergen Odessa Calcutta Marseille " +
		"Galway Tbilisi Oaxaca Dakar Salzburg Vermont Cordoba Riga Aleppo Hobart Zanzibar Palermo Winnipeg Bruges " +
		"Samarkand Laredo"),
	'p': words("Clara Edmund Marguerite Tobias Ingrid Anselm Rosalind Mateo Beatrix Leopold Nadia Oscar Philippa " +
		"Ivan Celeste Rufus Amara Desmond Yuki Harriet Silas Odile Bruno Winifred Rashid Greta Solomon Esperanza " +
		"Hugo " +
		"Matilda"),
	'c': words("Two Three Four Five Six Seven Eight Nine Ten Eleven Twelve Thirteen Forty"),
	't': words("Midnight Sunday Winter Autumn Christmas Noon Spring Twilight August Tuesday Dawn"),
}

func words(s string) []string { return strings.Fields(s) }

func pick(r *rng.Rand, from []string) string { return from[r.Uint32n(uint32(len(from)))] }

// namer gives each film of a world a unique title.
type namer struct{ used map[string]bool }

func newNamer(n int) *namer { return &namer{make(map[string]bool, n)} }

// title ends with the year of release. Films released before the start of the world are from the ninety years
// before, more of them recent.
func (m *namer) title(r *rng.Rand, genre int, release int32) string {
	year := 2023 + int(release)/(365*day)
	if release == 0 {
		x := r.Float64()
		year = 2022 - int(x*x*90)
	}
	in := " (" + strconv.Itoa(year) + ")"
	name := ""
	for range 4 {
		if name = phrase(r, genre); !m.used[name+in] {
			break
		}
	}
	full := name + in
	for part := 2; m.used[full]; part++ {
		full = name + " " + strconv.Itoa(part) + in
	}
	m.used[full] = true
	return full
}

func phrase(r *rng.Rand, genre int) string {
	k := int(r.Uint32n(uint32(len(forms) + 2*len(genreForms[genre]))))
	form := ""
	if k < len(forms) {
		form = forms[k]
	} else {
		form = genreForms[genre][(k-len(forms))/2]
	}
	var b strings.Builder
	last := ""
	for i := 0; i < len(form); i++ {
		if form[i] != '%' {
			b.WriteByte(form[i])
			continue
		}
		i++
		from, ok := fillers[form[i]]
		if !ok {
			from = genreNouns[genre]
		}
		w := pick(r, from)
		for w == last {
			w = pick(r, from)
		}
		if last = w; form[i] == 'i' {
			b.WriteString("A")
			if strings.IndexByte("AEIOU", w[0]) >= 0 {
				b.WriteByte('n')
			}
			b.WriteByte(' ')
		}
		b.WriteString(w)
	}
	return b.String()
}
