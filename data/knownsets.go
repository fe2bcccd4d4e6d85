package data

import "strings"

// thousandth is the unit of times in milliseconds.
const thousandth = 1000

const (
	movieLens = "For research. Do not redistribute it, do not use it commercially without permission, do not imply " +
		"endorsement, and cite Harper and Konstan, The MovieLens Datasets: History and Context, ACM TiiS 2015."
	hetRec = "For non-commercial use; for any other, ask Last.fm. Cite Cantador, Brusilovsky and Kuflik, HetRec " +
		"2011. The terms: https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-readme.txt"
	tenrec = "CC BY-NC 4.0, for research, after accepting the agreement on the owner's page. Cite Yuan et al., " +
		"Tenrec, NeurIPS 2022."
)

// The archive of HetRec 2011 serves two sets.
var lastFM = Archive{
	URL:    "https://files.grouplens.org/datasets/hetrec2011/hetrec2011-lastfm-2k.zip",
	SHA256: "6738f48195667ff03caaab4d32ca9a3133d8cc026b7c3cdaf6ce1010e913c59c",
}

// tenrecArticles reads files of Tenrec, whose header is user_id,item_id,click,gender,age,exposure_count,... A click
// of 0 is an article that was shown and not opened.
var tenrecArticles = Options{
	Sep: "comma", Header: "yes", Columns: "user=user_id,item=item_id,rating=click",
	Threshold: 1, HasThreshold: true,
}

// KnownSets returns the sets that Open can read.
//
//lint:size it is a table
func KnownSets() []KnownSet {
	sets := []KnownSet{
		{
			Name: "ml-100k", About: "film ratings, 1997-1998 (MovieLens 100K)",
			Home:    "https://grouplens.org/datasets/movielens/100k/",
			Licence: movieLens + " The terms: https://files.grouplens.org/datasets/movielens/ml-100k-README.txt",
			Archive: Archive{
				URL:    "https://files.grouplens.org/datasets/movielens/ml-100k.zip",
				SHA256: "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
			},
			Users: 943, Items: 1682, Rows: 100000,
			variants: []variant{{[]string{"u.data"}, reading{Options: Options{
				Sep: "tab", Header: "no",
				Columns: "user,item,rating,time",
			}}}},
			extra: []string{"u.item", "u.genre", "u.user"}, readExtra: ml100k,
		},
		{
			Name: "ml-1m", About: "film ratings, 2000-2003 (MovieLens 1M)",
			Home:    "https://grouplens.org/datasets/movielens/1m/",
			Licence: movieLens + " The terms: https://files.grouplens.org/datasets/movielens/ml-1m-README.txt",
			Archive: Archive{
				URL:  "https://files.grouplens.org/datasets/movielens/ml-1m.zip",
				Size: 5917549, SHA256: "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
			},
			Users: 6040, Items: 3706, Rows: 1000209,
			variants: []variant{{
				[]string{"ratings.dat"},
				reading{Options: Options{Sep: "::", Header: "no", Columns: "user,item,rating,time"}},
			}},
			extra: []string{"movies.dat", "users.dat"}, readExtra: ml1m,
		},
		{
			// The log of tags, as in PFedRec's experiments: an artist appears once for each tag. Times are days, so
			// the order of the file matters.
			Name: "lastfm-2k", About: "artists that users tagged, to 2011 (HetRec Last.fm)",
			Home:    "https://grouplens.org/datasets/hetrec-2011/",
			Licence: hetRec, Archive: lastFM, MinRows: 5,
			Users: 1600, Items: 12454, Rows: 185650,
			variants: []variant{
				{[]string{"user_taggedartists-timestamps.dat"}, reading{
					Options: Options{Sep: "tab", Header: "yes", Columns: "user=userID,item=artistID,time=timestamp"},
					per:     thousandth,
				}},
				{[]string{"user_taggedartists.dat"}, reading{
					Options: Options{Sep: "tab", Header: "yes", Columns: "user=userID,item=artistID,time=day"},
					dates:   dateColumns,
				}},
			},
			extra: []string{"artists.dat"}, readExtra: artists,
		},
		{
			// Listening counts without times, as in FedRAP's experiments, whose loader uses the item's first
			// appearance as the time.
			Name: "lastfm-2k-artists", About: "artists that users listened to, with counts (HetRec Last.fm)",
			Home: "https://grouplens.org/datasets/hetrec-2011/", Folder: "lastfm-2k",
			Licence: hetRec, Archive: lastFM, MinRows: 10,
			Users: 1874, Items: 17612, Rows: 92780,
			variants: []variant{{[]string{"user_artists.dat"}, reading{
				Options: Options{Sep: "tab", Header: "yes", Columns: "user=userID,item=artistID,rating=weight"},
				order:   byItem,
			}}},
			extra: []string{"artists.dat"}, readExtra: artists,
		},
		{
			Name: "filmtrust", About: "film ratings without times (FilmTrust)",
			Home: "https://www.librec.net/datasets.html",
			Licence: "The owner states no terms: take it as for research only. Cite Guo, Zhang and Yorke-Smith, A " +
				"Novel Bayesian Similarity Measure for Recommender Systems, IJCAI 2013.",
			Archive: Archive{URL: "https://www.librec.net/datasets/filmtrust.zip"},
			Users:   1508, Items: 2071, Rows: 35497,
			variants: []variant{{
				[]string{"ratings.txt"},
				reading{Options: Options{Sep: "space", Header: "no", Columns: "user,item,rating"}},
			}},
		},
		{
			Name: "frappe", About: "app usage counts by context, without times (Frappe)",
			Home: "https://www.baltrunas.info/context-aware",
			Licence: "For research. Do not redistribute it, do not use it commercially without permission, do not " +
				"try to find out who the users are, and cite Baltrunas et al., arXiv 1505.03014.",
			Users: 957, Items: 4082, Rows: 96203,
			variants: []variant{{[]string{"frappe.csv"}, reading{
				Options: Options{Sep: "tab", Header: "yes", Columns: "user=user,item=item,rating=cnt"},
				context: []string{"daytime", "weekday", "isweekend", "homework", "cost", "weather", "country", "city"},
			}}},
			readExtra: frappe,
		},
		{
			Name: "amazon-video", About: "ratings of films and series, to 2014 (Amazon Instant Video)",
			Home: "https://cseweb.ucsd.edu/~jmcauley/datasets/amazon/links.html",
			Licence: "The owner states no terms: take it as for research only. Cite McAuley et al., Image-based " +
				"Recommendations on Styles and Substitutes, SIGIR 2015.",
			MinRows: 5, Users: 8072, Items: 11830, Rows: 63836,
			variants: []variant{{
				[]string{"ratings_Amazon_Instant_Video.csv"},
				reading{Options: Options{Sep: "comma", Header: "no", Columns: "user,item,rating,time"}},
			}},
		},
		{
			// Two layouts: four files with a Chinese header (Big5), and the merged file that circulates today.
			Name: "tafeng", About: "what a supermarket's customers bought, 2000-2001 (Ta-Feng)",
			Home:    "https://www.kaggle.com/datasets/chiranjivdas09/ta-feng-grocery-dataset",
			Licence: "The owner states no terms: take it as for research only.",
			Users:   32266, Items: 23812, Rows: 817741,
			variants: []variant{
				{[]string{"ta_feng_all_months_merged.csv"}, reading{
					Options: Options{
						Sep: "comma", Header: "yes",
						Columns: "user=CUSTOMER_ID,item=PRODUCT_ID,rating=AMOUNT,time=TRANSACTION_DT",
					}, dates: dateText,
				}},
				{[]string{"D11", "D12", "D01", "D02"}, reading{
					Options: Options{Sep: "semicolon", Columns: "user=2,item=6,rating=7,time=1"}, dates: dateText,
				}},
			},
		},
		{
			// As in FedRAP's experiments, except for the first row, which its loader drops.
			Name: "qb-article", About: "articles that users opened, by when an article first appears (Tenrec " +
				"QB-article)",
			Home:    "https://static.qblv.qq.com/qblv/h5/algo-frontend/tenrec_dataset.html",
			Licence: tenrec,
			Users:   24516, Items: 7355, Rows: 348736,
			variants: []variant{{[]string{"QB-article.csv"}, reading{Options: tenrecArticles, order: byItem}}},
		},
		{
			// As in FedRecGEL's experiments and the owner's README: the rows of a user are in the order of clicks.
			Name: "qb-article-clicks", About: "articles that users opened, in the order of the clicks (Tenrec " +
				"QB-article)",
			Home: "https://static.qblv.qq.com/qblv/h5/algo-frontend/tenrec_dataset.html", Folder: "qb-article",
			Licence: tenrec, MinRows: 5,
			Users: 24508, Items: 7352, Rows: 348704,
			variants: []variant{{[]string{"QB-article.csv"}, reading{Options: tenrecArticles, order: byRow}}},
		},
	}
	for i := range sets {
		if sets[i].Folder == "" {
			sets[i].Folder = sets[i].Name
		}
	}
	return sets
}

// artists reads artists.dat (id, name, url and picture, by tabs).
func artists(d *folder, s *Set) error {
	at := places(s.Meta.ItemID)
	s.titles()
	return d.each("artists.dat", "\t", 2, func(f [][]byte) {
		if i, ok := at[text(f[0])]; ok {
			s.Meta.Title[i] = printable(text(f[1]))
		}
	})
}

// ml100k reads u.genre (name|number), u.item (id|title|date||url|19 flags) and
// u.user.
func ml100k(d *folder, s *Set) error {
	var genres []string
	if err := d.each("u.genre", "|", 2, func(f [][]byte) { genres = append(genres, text(f[0])) }); err != nil {
		return err
	}
	at := places(s.Meta.ItemID)
	s.titles()
	err := d.each("u.item", "|", 5+len(genres), func(f [][]byte) {
		i, ok := at[text(f[0])]
		if !ok {
			return
		}
		s.Meta.Title[i] = text(f[1])
		for g, flag := range f[5:] {
			if string(flag) == "1" {
				s.Meta.Genres[i] = append(s.Meta.Genres[i], genres[g])
			}
		}
	})
	if err != nil {
		return err
	}
	if err := s.attrs(d, "u.user", "|", "age", "gender", "occupation", "zip"); err != nil {
		return err
	}
	s.films()
	return nil
}

// ml1m reads movies.dat (id::title::genre|genre) and users.dat.
func ml1m(d *folder, s *Set) error {
	at := places(s.Meta.ItemID)
	s.titles()
	err := d.each("movies.dat", "::", 3, func(f [][]byte) {
		if i, ok := at[text(f[0])]; ok {
			s.Meta.Title[i] = text(f[1])
			s.Meta.Genres[i] = strings.Split(text(f[2]), "|")
		}
	})
	if err != nil {
		return err
	}
	if err := s.attrs(d, "users.dat", "::", "gender", "age", "occupation", "zip"); err != nil {
		return err
	}
	s.films()
	return nil
}
