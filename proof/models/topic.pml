/* topic.pml - one ring of a topic: publishing, taking, holding, reuse, change of hands; death
 * between any two steps.
 *
 *   owner        0, or the publishing process      published   how many messages the ring has
 *   ready[i]     p + 1: message p is in slot i = p mod K; 0: being written, or given up
 *   ref[i]       its object, 0: inline
 *   w0[i] w1[i]  an inline message, two words
 *   tag[o]       0 free, p held by p on its way, QUEUED the ring's
 *   bytes[o]     which message's bytes are in it (0: torn)
 *   claim[l]     subscriber slot l: 0, a subscriber, or the process that sweeps it
 *   cell[l,c]    a hazard pointer: 0, or an object that is held
 *   lines        how many subscribers' slots have ever been in use
 *
 * Publishers 1 and 2: the ring is 1's at first, and 2's when 1 has left or ended. Private to each,
 * and lost with it: limbo, free list.
 * take ring  owner 0 or ended -> me; ready of slot `published` is published + 1: published += 1;
 *            what is QUEUED and in no slot: limbo
 * loan       from the free list; or tag 0 -> me -> QUEUED; or what the look (below) finds in limbo;
 *            none: ready[oldest] := 0, which is never the last message, and the look again
 * publish    bytes := torn, bytes := whole; ready := 0; ref (w0, w1); ready := p + 1; published :=
 *            p + 1; the slot's old object: limbo
 * look       lines; of each slot: claim 0: nothing. Of a process that has ended: claim -> me, cells
 *            := 0, claim := 0. Else its cells: held. What is in limbo and not held: to the free
 *            list
 * leave      look; tags of the free list := 0; owner := 0
 * Subscribers 3 and 4:
 * join       a subscriber slot whose claim is 0 or a process's that has ended -> me; cells := 0;
 *            lines; cursor from `published`
 * take       published; ready = cursor + 1: copy ref, w0, w1; cell := ref; ready again: not the
 *            same: cell := 0. ready larger, or 0 and that published larger: lost, cursor to
 *            published - K, at least one on
 * drop       cell := 0          leave   drop all; claim := 0
 *
 * A process that is killed reads `dead` while its threads run on, for any time; then it has ended
 * (over). That is more than the kernel does, and so whatever waits for `over` is shown to be
 * enough.
 *
 * Checked: what is taken is that position's message, whole; an object that a process which has not
 * ended holds (validated) is not written, lent or freed, and no other process clears its hazard
 * pointer; nor is an object that is in place written, lent or freed; no position is published
 * twice, and none is left out; what was published is counted by the next owner; nothing is said to
 * be lost that is there, or never was; a subscriber slot has one owner; and when all is quiet, one
 * more owner later each object is free or in place in exactly one slot.
 * Switches: -DK=slots -DO=objects -DNP=publishers -DM=messages of each -DNS=subscribers
 * -DNL=subscriber slots -DC=hazard pointers of each -DR=takes of each -DD=deaths
 *   -DINLINE messages may be inline
 *   STOP        One publisher or subscriber may stop for ever, and one be killed. The others come
 *               to their ends (a publisher that finds the ring in the hands of a stopped one takes
 *               another ring in truth, and ends here). What a stopped subscriber holds is neither
 *               written nor freed; its slot is its own, and so is a slot that a stopped publisher
 *               sweeps. What was published is counted, unless its publisher is the stopped one.
 * Mutations, each must be caught:
 *   NORECHECK   take: ready is not looked at again
 *   HOLDLATE    take: the hazard pointer after the second look
 *   NOZERO      publish: ready is not 0 while the slot is written
 *   SCANFIRST   the hazard pointers are looked at before the overwrite
 *   LINESFIRST  `lines` is read before the overwrite, the hazard pointers after it
 *   NOSCAN      the hazard pointers are not looked at
 *   GIVEFIRST   giving up: the hazard pointers are looked at before ready := 0
 *   GIVETWICE   the object of a slot that was given up goes to limbo again when the slot is
 *               overwritten
 *   DEADONLY    the ring is taken from a process that is dead but has not ended
 *   LINEDEAD    slots of subscribers that are dead but have not ended do not count
 *   SWEEPDEAD   a sweep is taken over from a process that is dead but has not ended
 *   LINESTORE   join: claim by a store, not a compare-exchange
 *   NOREBUILD   take ring: nothing goes to limbo
 *   NOCOUNT     take ring: what was published and not counted is not counted
 *   SWEEPLEAK   sweep: claim := 0 before the hazard pointers
 *   PUBFIRST    publish: published before ready
 *   PUBLATE     take: published is read after ready
 *   SKIPONE     take: lost, cursor to published - K + 1
 *   WAITWRITTEN (STOP) take: a slot that is being written is waited for
 *   STUCK       take: lost, cursor to published - K, even if that is where it is
 */
#ifndef K
#define K 1
#endif
#ifndef O
#define O 2
#endif
#ifndef M
#define M 2
#endif
#ifndef NP
#define NP 2
#endif
#ifndef NS
#define NS 1
#endif
#ifndef NL
#define NL 1
#endif
#ifndef C
#define C 1
#endif
#ifndef R
#define R 2
#endif
#ifndef D
#define D 1
#endif
#define N (2+NS)
#define QUEUED 9
#define NOLINE 9
#define BIT(o) (1<<((o)-1))
#define AT(l,c) ((l)*C+(c))

byte owner=1, published;
byte ready[K], ref[K];
#ifdef INLINE
byte w0[K], w1[K];
#endif
byte tag[O+1], bytes[O+1];
byte claim[NL], cell[NL*C], lines;
bool dead[N+1], over[N+1], fin[N+1];
byte content[2*M+1];			/* ghost: the message that was published at a position */
byte hold[NS*C], lineof[NS];		/* ghosts: what a subscriber has validated and holds, and its line */
byte budget;
#ifdef STOP
bool stopped[N+1], stop=1;
#define OUT(i) (fin[i] || stopped[i])
#endif

#ifdef DEADONLY
#define RINGGONE(p) dead[p]
#else
#define RINGGONE(p) over[p]
#endif
#ifdef LINEDEAD
#define GONE(p) dead[p]
#elif defined(SWEEPDEAD)
#define GONE(p) (over[p] || ((p)<3 && dead[p]))
#else
#define GONE(p) over[p]
#endif

/* no process that has not ended holds it, and it is in no slot. Ghosts are cleared when their
 * process ends. Uses g */
inline nobodys(o) {
	g=0; do :: g<NS*C -> assert(hold[g]!=(o)); g++ :: else -> break od;
	g=0; do :: g<K -> assert(!(ready[g]!=0 && ref[g]==(o))); g++ :: else -> break od;
	g=0
}

/* no cell (l, c) of a living owner with something in hand is cleared by others */
inline notheld(l,c) {
	g=0; do :: g<NS -> assert(!(lineof[g]==(l) && g+3!=me && hold[g*C+(c)]!=0)); g++ :: else -> break od;
	g=0
}

inline scan() {
	/* nl: lines, as read before */
	do
	:: l<nl ->
		v=claim[l];
		if
		:: v==0
		:: v!=0 && GONE(v) ->
			atomic { if :: claim[l]==v -> claim[l]=me; v=0 :: else fi };
			if
			:: v==0 ->
#ifdef SWEEPLEAK
				claim[l]=0;
#endif
				c=0;
				do :: c<C -> atomic { notheld(l,c); cell[AT(l,c)]=0; c++ } :: else -> break od;
				atomic { c=0;
#ifndef SWEEPLEAK
					claim[l]=0
#endif
				}
			:: else
			fi
		:: else ->
			c=0;
			do
			:: c<C -> atomic { v=cell[AT(l,c)]; if :: v!=0 -> marks=marks|BIT(v) :: else fi; c++ }
			:: else -> break
			od;
			c=0
		fi;
		atomic { v=0; l++ }
	:: else -> break
	od;
	atomic { l=0; nl=0 }
}

inline tostock() {
	atomic {
#ifdef NOSCAN
		marks=0;
#endif
		o=1; do :: o<=O -> if :: (limbo & BIT(o)) && !(marks & BIT(o)) -> nobodys(o); limbo=limbo-BIT(o); stock=stock|BIT(o) :: else fi; o++
			:: else -> break od;
		o=0; marks=0 }
}

inline loan() {
	atomic { o=1; do :: o<=O && !(stock & BIT(o)) -> o++ :: else -> break od;
		if :: o<=O -> stock=stock-BIT(o) :: else -> o=0 fi };
	if
	:: o==0 ->
		atomic { o=1; do :: o<=O && tag[o]!=0 -> o++ :: else -> break od;
			if :: o<=O -> tag[o]=me :: else -> o=0 fi };
		if :: o!=0 -> atomic { nobodys(o); assert(tag[o]==me); tag[o]=QUEUED } :: else fi
	:: else
	fi
}

proctype Pub(byte me) {
	byte limbo, stock, marks, o, old, p, i, v, l, nl, c, g, m;
	{
#ifdef STOP
		if
		:: atomic { owner==me || owner==0 || RINGGONE(owner) -> owner=me }
		:: owner!=me && stopped[owner] && !RINGGONE(owner) -> goto another
		fi;
#else
		atomic { owner==me || owner==0 || RINGGONE(owner) -> owner=me };
#endif
#ifndef NOCOUNT
		v=ready[published%K];
		if :: v==published+1 -> published++ :: else fi;
#endif
		atomic { v=0;
#ifndef NOCOUNT
			assert(content[published]==0 && (published==0 || content[published-1]!=0));
#endif
#ifndef NOREBUILD
			o=1; do :: o<=O -> if :: tag[o]==QUEUED -> limbo=limbo|BIT(o) :: else fi; o++ :: else -> break od; o=0;
			do :: i<K -> if :: ready[i]!=0 && ref[i]!=0 && (limbo & BIT(ref[i])) -> limbo=limbo-BIT(ref[i]) :: else fi; i++ :: else -> break od;
			i=0
#endif
		};
		do
		:: m<M ->
#ifdef INLINE
			if
			:: true
			:: true ->
#endif
			if
			:: limbo!=0 -> nl=lines; scan(); tostock()
			:: true
			fi;
			loan();
			if
			:: o==0 && limbo!=0 -> nl=lines; scan(); tostock(); loan()
			:: else
			fi;
			if
			:: o==0 && K>1 ->	/* give up the oldest that is in place, but not the last */
				atomic { v=(published>K -> published-K : 0);
					do :: v+1<published && ready[v%K]!=v+1 -> v++ :: else -> break od;
					if :: v+1<published -> i=v%K; old=ref[i] :: else fi; v=0 };
				if
				:: old!=0 ->
#ifdef GIVEFIRST
					nl=lines; scan(); ready[i]=0; atomic { i=0; limbo=limbo|BIT(old); old=0 };
#else
					ready[i]=0; atomic { i=0; limbo=limbo|BIT(old); old=0 }; nl=lines; scan();
#endif
					tostock(); loan()
				:: else
				fi
			:: else
			fi;
			if
			:: o!=0 ->
				atomic { nobodys(o); bytes[o]=0 };
				atomic { nobodys(o); bytes[o]=published*2+me }
			:: else
			fi
#ifdef INLINE
			fi
#endif
			;
			if
			:: o!=0 ->
				atomic { p=published; i=p%K;
#ifdef GIVETWICE
					old=ref[i]
#else
					old=(ready[i]!=0 -> ref[i] : 0)
#endif
				};
#ifdef SCANFIRST
				nl=lines; scan();
#endif
#ifdef LINESFIRST
				nl=lines;
#endif
#ifndef NOZERO
				ready[i]=0;
#endif
				ref[i]=o;
#ifdef PUBFIRST
				published=p+1;
#endif
				atomic { assert(content[p]==0 && (p==0 || content[p-1]!=0)); ready[i]=p+1; content[p]=p*2+me; o=0 };
#ifndef PUBFIRST
				atomic { assert(published==p); published=p+1 };
#endif
				atomic { i=0; p=0; if :: old!=0 -> limbo=limbo|BIT(old); old=0 :: else fi };
#ifdef SCANFIRST
				tostock();
#endif
#ifdef LINESFIRST
				scan(); tostock();
#endif
#ifdef INLINE
			:: o==0 ->
				atomic { p=published; i=p%K; old=(ready[i]!=0 -> ref[i] : 0) };
				ready[i]=0;
				ref[i]=0;
				w0[i]=p*2+me;
				w1[i]=p*2+me;
				atomic { assert(content[p]==0 && (p==0 || content[p-1]!=0)); ready[i]=p+1; content[p]=p*2+me };
				atomic { assert(published==p); published=p+1; i=0; p=0; if :: old!=0 -> limbo=limbo|BIT(old); old=0 :: else fi }
#endif
			:: else
			fi;
			m++
		:: else -> break
		od;
		/* leave */
		if :: limbo!=0 -> nl=lines; scan(); tostock() :: else fi;
		o=1;
		do
		:: o<=O -> atomic { if :: stock & BIT(o) -> nobodys(o); assert(tag[o]==QUEUED); tag[o]=0; stock=stock-BIT(o) :: else fi; o++ }
		:: else -> break
		od;
		atomic { o=0; m=0; limbo=0; assert(owner==me); owner=0 };
#ifdef STOP
another:
#endif
		fin[me]=1;
end_idle:	(false)
#ifdef STOP
	} unless { (over[me] || stopped[me]) && !fin[me];
end_stop:	over[me];
#else
	} unless { over[me] && !fin[me];
#endif
		atomic { fin[me]=1; limbo=0; stock=0; marks=0; o=0; old=0; p=0; i=0; v=0; l=0; nl=0; c=0; g=0; m=0 } }
}

proctype Sub(byte me) {
	byte cur, pub, v, x, a, b, l, c, g, r; bool got;
	{
		do
		:: l<NL && !got ->
			v=claim[l];
			if
			:: v==0 || GONE(v) ->
				atomic { if
#ifdef LINESTORE
					:: true ->
#else
					:: claim[l]==v ->
#endif
						g=0; do :: g<NS -> assert(lineof[g]!=l); g++ :: else -> break od; g=0;
						claim[l]=me; lineof[me-3]=l; got=1
					:: else fi }
			:: else
			fi;
			if :: !got -> l++ :: else fi
		:: else -> break
		od;
		v=0;
		if
		:: got ->
			do :: c<C -> atomic { notheld(l,c); cell[AT(l,c)]=0; c++ } :: else -> break od;
			atomic { c=0; if :: lines<=l -> lines=l+1 :: else fi };
			atomic { cur=published; if :: cur>K -> cur=cur-K :: else -> cur=0 fi };
			do
			:: r<R ->
				/* drop some */
				do
				:: c<C -> if :: hold[(me-3)*C+c]!=0 -> atomic { assert(cell[AT(l,c)]==hold[(me-3)*C+c]); hold[(me-3)*C+c]=0; cell[AT(l,c)]=0 } :: true fi; c++
				:: else -> break
				od;
				c=0; do :: c<C && hold[(me-3)*C+c]!=0 -> c++ :: else -> break od;
				if
				:: c<C ->
#ifdef PUBLATE
					v=ready[cur%K];
					pub=published;
#else
					pub=published;
					v=ready[cur%K];
#endif
#ifdef WAITWRITTEN
					if :: v==0 && owner!=0 -> (ready[cur%K]!=0 || owner==0 || over[owner]) :: else fi;
#endif
					if
					:: v==cur+1 ->
						x=ref[cur%K];
#ifdef INLINE
						if :: x==0 -> a=w0[cur%K]; b=w1[cur%K] :: else fi;
#endif
#ifndef HOLDLATE
						if :: x!=0 -> cell[AT(l,c)]=x :: else fi;
#endif
						atomic {
							got=(ready[cur%K]==cur+1);
#ifdef NORECHECK
							got=1;
#endif
							if
							:: got && x!=0 ->
								assert(bytes[x]==content[cur]);
#ifndef HOLDLATE
								hold[(me-3)*C+c]=x
#endif
							:: got && x==0 -> assert(a==content[cur] && b==content[cur])
							:: else
							fi };
#ifdef HOLDLATE
						if :: got && x!=0 -> atomic { cell[AT(l,c)]=x; hold[(me-3)*C+c]=x } :: else fi;
#endif
						if
						:: got -> cur++
						:: !got && x!=0 -> cell[AT(l,c)]=0
						:: else
						fi
					:: v>cur+1 || (v==0 && pub>cur) ->
						atomic { x=cur; g=cur;
							cur=(pub>K -> pub-K : 0);
#ifdef SKIPONE
							cur++;
#endif
#ifndef STUCK
							if :: cur<=x -> cur=x+1 :: else fi;
#endif
							assert(cur>x);
							do :: g<cur -> assert(content[g]!=0 && ready[g%K]!=g+1); g++ :: else -> break od; g=0 }
					:: else
					fi;
					atomic { v=0; x=0; a=0; b=0; pub=0; got=0 }
				:: else
				fi;
				atomic { c=0; r++ }
			:: else -> break
			od;
			c=0;
			do
			:: c<C -> if :: hold[(me-3)*C+c]!=0 -> atomic { assert(cell[AT(l,c)]==hold[(me-3)*C+c]); hold[(me-3)*C+c]=0; cell[AT(l,c)]=0 } :: else fi; c++
			:: else -> break
			od;
			atomic { c=0; got=0; assert(claim[l]==me); claim[l]=0; lineof[me-3]=NOLINE }
		:: else
		fi;
		atomic { l=0; r=0; cur=0; fin[me]=1 };
end_idle:	(false)
#ifdef STOP
	} unless { (over[me] || stopped[me]) && !fin[me];
end_stop:	over[me];
#else
	} unless { over[me] && !fin[me];
#endif
		atomic { fin[me]=1; cur=0; pub=0; v=0; x=0; a=0; b=0; l=0; c=0; g=0; r=0; got=0 } }
}

#define DEATH(i) :: atomic { budget>0 && !fin[i] && !dead[i] -> dead[i]=1; budget-- }
#define END(i) :: atomic { dead[i] && !over[i] -> over[i]=1 }
#define ENDSUB(i) :: atomic { dead[i] && !over[i] -> over[i]=1; lineof[(i)-3]=NOLINE; \
	n=0; do :: n<C -> hold[((i)-3)*C+n]=0; n++ :: else -> break od; n=0 }

active proctype others() {
	byte n, o, i, limbo;
	atomic {
		if :: budget=D
#if D > 0
		:: budget=D-1
#endif
#if D > 1
		:: budget=D-2
#endif
		fi;
		run Pub(1);
#if NP > 1
		run Pub(2);
#else
		fin[2]=1;
#endif
		do :: n<NS -> lineof[n]=NOLINE; run Sub(n+3); n++ :: else -> break od; n=0 };
	do
	DEATH(1) DEATH(2) DEATH(3)
	END(1) END(2) ENDSUB(3)
#if NS > 1
	DEATH(4) ENDSUB(4)
#endif
#ifdef STOP
	:: atomic { stop && !fin[1] -> stopped[1]=1; stop=0 }
	:: atomic { stop && !fin[2] -> stopped[2]=1; stop=0 }
	:: atomic { stop && !fin[3] -> stopped[3]=1; stop=0 }
	:: atomic { OUT(1) && OUT(2) && OUT(3) && OUT(N) ->
		n=1; do :: n<=N -> if :: dead[n] -> over[n]=1 :: else fi; n++ :: else -> break od;
		assert(owner==0 || over[owner] || stopped[owner]);
		n=0; do :: n<NL -> assert(claim[n]==0 || over[claim[n]] || stopped[claim[n]]); n++ :: else -> break od;
		if :: (owner==0 || over[owner]) && ready[published%K]==published+1 -> published++ :: else fi;
		n=0; do :: n<published -> assert(content[n]!=0); n++ :: else -> break od;
		do :: n<=2*M && (owner==0 || over[owner]) -> assert(content[n]==0); n++ :: else -> break od;
		n=0; do :: i<K ->
			if :: ready[i]!=0 && ref[i]!=0 -> assert(tag[ref[i]]==QUEUED && bytes[ref[i]]==content[ready[i]-1]) :: else fi; i++
		:: else -> break od; i=0;
		n=0; do :: n<NS*C -> if :: hold[n]!=0 && stopped[3+n/C] && !over[3+n/C] -> assert(tag[hold[n]]==QUEUED && cell[AT(lineof[n/C],n%C)]==hold[n]) :: else fi; n++ :: else -> break od;
		o=1; do :: o<=O -> assert(tag[o]==0 || tag[o]==QUEUED || over[tag[o]] || stopped[tag[o]]); o++ :: else -> break od;
		n=0; o=0; goto end_all }
#else
	:: fin[1] && fin[2] && fin[3] && fin[N] -> break
#endif
	od;
#ifdef STOP
end_all:	(false)
#else
	atomic {
		/* one more owner, when all have ended or left */
		n=1; do :: n<=N -> if :: dead[n] -> over[n]=1 :: else fi; n++ :: else -> break od;
		assert(owner==0 || over[owner]);
		n=0; do :: n<NS*C -> hold[n]=0; n++ :: else -> break od;
		n=0; do :: n<NL -> assert(claim[n]==0 || over[claim[n]]);
			if :: claim[n]==0 -> i=0; do :: i<C -> assert(cell[AT(n,i)]==0); i++ :: else -> break od; i=0 :: else fi; n++ :: else -> break od;
		n=0;
#ifndef NOCOUNT
		if :: ready[published%K]==published+1 -> published++ :: else fi;
#endif
		/* every published message is counted, and no position was left out */
		n=0; do :: n<published -> assert(content[n]!=0); n++ :: else -> break od;
		do :: n<=2*M -> assert(content[n]==0); n++ :: else -> break od;
		n=0;
		/* what is in place is the ring's, and in one slot */
		do :: i<K ->
			if :: ready[i]!=0 ->
				assert(ready[i]<=published && ready[i]+K>published && (ready[i]-1)%K==i);
				if :: ref[i]!=0 -> assert(tag[ref[i]]==QUEUED && !(limbo & BIT(ref[i])) && bytes[ref[i]]==content[ready[i]-1]); limbo=limbo|BIT(ref[i])
				:: else fi
			:: else fi; i++
		:: else -> break od;
		/* all else is freed: held by the dead, or the ring's and in no slot */
		o=1; do :: o<=O ->
			if :: tag[o]!=0 && tag[o]!=QUEUED -> assert(over[tag[o]]); tag[o]=0
#ifndef NOREBUILD
			:: tag[o]==QUEUED && !(limbo & BIT(o)) -> tag[o]=0
#endif
			:: else fi;
			assert(tag[o]==0 || (limbo & BIT(o))); o++
		:: else -> break od;
		n=0; i=0; o=0; limbo=0 }
#endif
}
